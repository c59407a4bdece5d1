"""Multiple choice in one batch against one option at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.metrics.likelihood import SCALES, Choice, choose
from tests.metrics.test_likelihood import LONGEST, START, VOCABULARY, model

IDS = st.integers(1, VOCABULARY - 1)


@torch.no_grad()
def log_p(option: list[int], before: list[int]) -> float:
    """All logits at once, for one text."""
    read = torch.tensor([[START, *before, *option]])
    scores = model()(read[:, :-1])[0].double().log_softmax(-1)
    return sum(float(scores[len(before) + n, word]) for n, word in enumerate(option))


@given(
    context=st.lists(IDS, max_size=12),
    aside=st.lists(IDS, max_size=3),
    options=st.lists(st.lists(IDS, min_size=1, max_size=6), min_size=1, max_size=4),
)
@settings(max_examples=20)
def test_scores_are_those_of_each_option_alone(context, aside, options):
    sizes = [3 * len(option) + 1 for option in options]
    found = choose(model(), context, options, sizes, start=START, window=LONGEST, aside_ids=aside)
    expected = np.array([log_p(option, context) for option in options])
    tokens = np.array([len(option) for option in options])
    np.testing.assert_allclose(found.total, expected, atol=1e-4)
    np.testing.assert_allclose(found.per_token, expected / tokens, atol=1e-4)
    np.testing.assert_allclose(found.per_byte, expected / sizes, atol=1e-4)
    np.testing.assert_allclose(found.above_aside, expected - [log_p(option, aside) for option in options], atol=1e-4)


def test_a_long_context_keeps_its_end():
    context, options = [*range(1, 51)], [[3, 4, 5], [6]]
    found = choose(model(), context, options, [3, 1], start=START, window=LONGEST)
    kept = [context[-(LONGEST - len(option)) :] for option in options]
    np.testing.assert_allclose(found.total, [log_p(option, before) for option, before in zip(options, kept)], atol=1e-4)


def test_scales_may_disagree():
    choice = Choice(total=(-4.0, -6.0), per_token=(-4.0, -3.0), per_byte=(-1.0, -1.0), above_aside=(-1.0, 2.0))
    assert [choice.best(scale) for scale in SCALES] == [0, 1, 0, 1]
    assert choice.as_dict()["total"] == [-4.0, -6.0]
    with pytest.raises(UserError, match="did you mean 'per_token'"):
        choice.best("per_tokens")


@pytest.mark.parametrize(
    ("options", "sizes", "told"),
    [
        ([], [], "at least one option"),
        ([[1]], [1, 2], "1 options came with 2"),
        ([[1], []], [1, 0], "option 2 is empty"),
        ([[1] * 30], [30], "option 1 has 30 tokens, more than the window"),
    ],
)
def test_options_that_cannot_be_scored_are_told(options, sizes, told):
    with pytest.raises(UserError, match=told):
        choose(model(), [1], options, sizes, start=START, window=LONGEST)
