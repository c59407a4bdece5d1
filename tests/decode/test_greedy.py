"""Greedy search against a plain loop, in ragged batches."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.decode.request import Hypothesis
from tests.decode.searches import greedy
from tests.decode.toy import EOS, SOS, Oracle, TableState, table


def plain_greedy(oracle: Oracle, limit: int) -> tuple[list[int], bool, list[float]]:
    ids: list[int] = []
    logprobs: list[float] = []
    while len(ids) < limit and (choices := oracle.nexts(ids)):
        logprob, token = choices[0]
        logprobs.append(logprob)
        if token == EOS:
            return ids, True, logprobs
        ids.append(token)
    return ids, False, logprobs


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    limits=st.lists(st.integers(1, 12), max_size=7),
    minimum=st.integers(0, 4),
    dead=st.booleans(),
)
def test_every_row_is_what_a_plain_loop_finds(seed: int, limits: list[int], minimum: int, dead: bool) -> None:
    logits_NV = table(seed, 6)
    if dead:
        logits_NV[::5] = -math.inf
    starts = [(seed + 11 * row) % 97 for row in range(len(limits))]
    state = TableState(logits_NV, starts)
    found = greedy(state, sos=SOS, eos=EOS, limits=torch.tensor(limits), minimum_length=minimum, banned=(SOS, 4))
    for start, limit, one in zip(starts, limits, found, strict=True):
        ids, finished, logprobs = plain_greedy(Oracle(logits_NV, start, banned=(SOS, 4), minimum=minimum), limit)
        assert (one.ids, one.finished) == (ids, finished)
        assert one.token_logprobs == pytest.approx(logprobs, abs=1e-6)
        assert one.score == one.logprob == pytest.approx(sum(logprobs), abs=1e-5)


def test_rows_leave_as_they_end_and_none_is_selected() -> None:
    never_ends = table(1, 5).index_fill(1, torch.tensor([EOS]), -50.0)
    state = TableState(never_ends, [4, 5, 6])
    greedy(state, sos=SOS, eos=EOS, limits=[3, 1, 3])
    assert state.calls == [("step", 3), ("compact", 2), ("step", 2), ("step", 2)]


def test_ties_go_to_the_lower_id() -> None:
    level = torch.zeros(97, 40).index_fill(1, torch.tensor([SOS, EOS]), -1.0)
    (one,) = greedy(TableState(level, [0]), sos=SOS, eos=EOS, limits=[2])
    assert one.ids == [2, 2]


def test_no_gradient_is_kept() -> None:
    logits_NV = table(0, 5).requires_grad_()
    assert greedy(TableState(logits_NV, [0]), sos=SOS, eos=EOS, limits=[2])[0].logprob < 0


def test_nothing_can_follow() -> None:
    nothing = torch.full((97, 3), -math.inf)
    assert greedy(TableState(nothing, [0]), sos=SOS, eos=EOS, limits=[2]) == [Hypothesis([], 0, 0, False, [])]


def test_one_limit_per_row() -> None:
    with pytest.raises(UserError, match="2 rows"):
        greedy(TableState(table(0, 3), [0, 1]), sos=SOS, eos=EOS, limits=[5])
