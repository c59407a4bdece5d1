"""Slopes are what small changes do; integrated gradients add up to what the words add."""

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.lens.analyses.gradients import (
    Attribution,
    entries,
    gradient_times_input,
    integrated_gradients,
    scored_positions,
    word_shares,
)
from regard.lens.result import html
from tests.lens.some_subjects import EVERY, SOME, subject

SMALL = 1e-2


def logprobs(found, shares):
    with torch.no_grad(), word_shares(found, shares):
        logits = found.forward(1)[0].float()
    return logits.log_softmax(-1)[range(len(logits)), found.targets_L.clamp(min=0)][scored_positions(found)].numpy()


def shares_but(side, place, step):
    share = torch.ones(1, len(side))
    share[0, place] += step
    return share


@pytest.mark.parametrize("name", EVERY)
def test_gradient_times_input_is_what_a_little_less_of_a_word_does(name):
    """d log p / d share of a word, at the whole word: a difference tells the same, and no gradient is asked for."""
    found = subject(name)
    result = gradient_times_input(found)
    column = 0
    for stack, side in found.sides.items():
        for place in range(len(side)):
            if place in (0, len(side) // 2):
                less, whole, more = (logprobs(found, {stack: shares_but(side, place, step)}) for step in (-SMALL, 0.0, SMALL))
                slopes = [(more - less) / (2 * SMALL), (whole - less) / SMALL, (more - whole) / SMALL]
                alike = [np.isclose(result.values_PN[:, column], slope, atol=2e-3, rtol=0.05) for slope in slopes]
                assert np.logical_or.reduce(alike).all()  # one side may have a kink: DistilBERT sorts by a rectifier
            column += 1
    assert column == len(result.tokens) == result.values_PN.shape[1]


@pytest.mark.parametrize("name", SOME)
def test_integrated_gradients_are_complete(name):
    found = subject(name)
    result = integrated_gradients(found, steps=64)
    none = {stack: torch.zeros(1, len(side)) for stack, side in found.sides.items()}
    added = logprobs(found, {}) - logprobs(found, none)
    missing = added - result.values_PN.sum(1)
    np.testing.assert_allclose(result.missing, missing, atol=1e-4)
    assert np.abs(missing).max() < 0.02 * max(1.0, np.abs(added).max())
    np.testing.assert_allclose(result.logprobs, logprobs(found, {}), atol=1e-4)


def test_more_steps_miss_less():
    found = subject("translator")
    few, many = (max(map(abs, integrated_gradients(found, steps=steps).missing)) for steps in (2, 128))
    assert many < few / 5
    with pytest.raises(UserError, match="steps"):
        integrated_gradients(found, steps=0)


@pytest.mark.parametrize("name", ["translator", "writer", "filler"])
def test_whole_words_change_nothing_and_hooks_leave(name):
    found = subject(name)
    plain = found.forward(2)
    ones = {stack: torch.ones(2, len(side)) for stack, side in found.sides.items()}
    with word_shares(found, ones) as entered:
        assert torch.equal(found.forward(2), plain)
    assert entered.keys() == found.sides.keys()
    assert {*entries(found)} == {*found.sides}
    hooks = [hooks for e in entries(found).values() for hooks in (e.whole._forward_pre_hooks, e.vectors._forward_hooks)]
    assert not any(hooks)


def test_a_prediction_does_not_hang_on_what_comes_after_it():
    result = gradient_times_input(subject("writer"))
    later = [(p, n) for p in range(len(result.predictions)) for n in range(p + 1, len(result.tokens))]
    assert all(result.values_PN[p, n] == 0 for p, n in later)


def test_it_tells_and_draws():
    result = integrated_gradients(subject("translator"), steps=4)
    assert "completeness" in result.lines()[2]
    assert result.of("encoder").shape == (len(subject("translator").sides["encoder"]),)
    assert result.as_dict()["missing"] == result.missing
    assert "integrated gradients" in html(result)


def test_small_slopes_are_told_with_digits_and_without_signed_zeros() -> None:
    values = np.array([[-0.0031, 1.2e-7, 0.4, -0.0], [-0.0, 0.0, 0.0, -4e-4]])
    found = Attribution("t", "gradient × input", ("p", "q"), ("a", "b", "c", "d"), ("decoder",) * 4, values, (-0.1, -2e-5))
    told = "\n".join(found.lines())
    assert "c +0.40 · a -0.0031 · b +1.2e-07" in told
    assert "d -0.0004" in told
    assert "-2e-05" in told
    assert "0.00 " not in f"{told} "
