"""Beam search against exhaustive search, against a plain-Python beam, and against itself in other batches."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.decode.request import Hypothesis
from tests.decode.searches import beam_search, greedy
from tests.decode.toy import EOS, SOS, Oracle, TableState, after, divisor, table

ALPHAS = st.sampled_from([0.0, 0.6, 1.0])
SEEDS = st.integers(0, 10_000)


Path = tuple[float, tuple[int, ...]]


def search(
    logits_NV: Tensor,
    starts: list[int],
    limits: list[int],
    beam: int,
    alpha: float,
    n_best: int = 1,
    minimum: int = 0,
    banned: tuple[int, ...] = (),
) -> list[list[Hypothesis]]:
    return beam_search(
        TableState(logits_NV, starts),
        sos=SOS,
        eos=EOS,
        beam=beam,
        alpha=alpha,
        limits=limits,
        minimum_length=minimum,
        n_best=n_best,
        banned=banned,
    )


def all_outputs(oracle: Oracle, limit: int) -> tuple[list[Path], list[Path]]:
    """(log-probability, ids) of every finished output and of every output cut at the limit."""
    finished: list[Path] = []
    live: list[Path] = [(0.0, ())]
    for _ in range(limit):
        grown = [(total + p, (*ids, token)) for total, ids in live for p, token in oracle.nexts(ids)]
        finished += [(total, ids[:-1]) for total, ids in grown if ids[-1] == EOS]
        live = [(total, ids) for total, ids in grown if ids[-1] != EOS]
    return finished, live


@settings(max_examples=60)
@given(seed=SEEDS, vocabulary=st.integers(2, 5), limit=st.integers(1, 4), alpha=ALPHAS, n_best=st.integers(1, 6))
def test_a_beam_wider_than_all_prefixes_is_exhaustive(seed: int, vocabulary: int, limit: int, alpha: float, n_best: int) -> None:
    logits_NV = table(seed, vocabulary)
    start = seed % 97
    finished, cut = all_outputs(Oracle(logits_NV, start), limit)
    ranked = sorted(((p / divisor(len(ids) + 1, alpha), p, ids, True) for p, ids in finished), reverse=True)
    ranked += sorted(((p / divisor(len(ids), alpha), p, ids, False) for p, ids in cut), reverse=True)
    wide = max(vocabulary**limit, n_best)
    (found,) = search(logits_NV, [start], [limit], wide, alpha, n_best=n_best)
    assert len(found) == min(n_best, len(ranked))
    for hypothesis, (score, logprob, ids, ended) in zip(found, ranked):
        assert tuple(hypothesis.ids) == ids
        assert hypothesis.finished is ended
        assert hypothesis.score == pytest.approx(score, abs=1e-5)
        assert hypothesis.logprob == pytest.approx(logprob, abs=1e-5)
        assert sum(hypothesis.token_logprobs) == pytest.approx(hypothesis.logprob, abs=1e-9)
        assert len(hypothesis.token_logprobs) == len(ids) + ended


def plain_beam(oracle: Oracle, limit: int, beam: int, alpha: float, n_best: int) -> list[tuple[list[int], bool]]:
    """The rule of beam.py for one sentence, with lists, and never stopping before it must."""
    kept: list[tuple[float, list[int]]] = []
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    for length in range(1, limit + 1):
        grown = [(total + p, [*ids, token]) for total, ids in live for p, token in oracle.nexts(ids)]
        grown.sort(key=lambda path: -path[0])
        kept += [(total / divisor(length, alpha), ids[:-1]) for total, ids in grown[:beam] if ids[-1] == EOS]
        survivors = [path for path in grown if path[1][-1] != EOS][:beam]
        if not survivors and not kept:
            return [(live[0][1], False)]
        live = survivors
        if all(ids[-1] == EOS for _, ids in grown[:beam]):
            break
    kept.sort(key=lambda path: -path[0])
    return ([(ids, True) for _, ids in kept] + [(ids, False) for _, ids in live])[:n_best]


@settings(max_examples=80)
@given(
    seed=SEEDS,
    vocabulary=st.integers(3, 7),
    limits=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    beam=st.integers(1, 5),
    alpha=ALPHAS,
    minimum=st.integers(0, 3),
    data=st.data(),
)
def test_equals_a_plain_beam_that_never_stops_early(
    seed: int, vocabulary: int, limits: list[int], beam: int, alpha: float, minimum: int, data: st.DataObject
) -> None:
    n_best = data.draw(st.integers(1, beam))
    logits_NV = table(seed, vocabulary, spread=1.5)
    starts = [(seed + 13 * row) % 97 for row in range(len(limits))]
    found = search(logits_NV, starts, limits, beam, alpha, minimum=minimum, n_best=n_best, banned=(SOS,))
    for start, limit, hypotheses in zip(starts, limits, found):
        oracle = Oracle(logits_NV, start, banned=(SOS,), minimum=minimum)
        expected = plain_beam(oracle, limit, beam, alpha, n_best)
        assert [(hypothesis.ids, hypothesis.finished) for hypothesis in hypotheses] == expected


@settings(max_examples=40)
@given(
    seed=SEEDS,
    limits=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    beam=st.integers(1, 5),
    alpha=ALPHAS,
    levels=st.sampled_from([0, 2]),
)
def test_a_batch_finds_what_each_sentence_finds_alone_to_the_last_bit(
    seed: int, limits: list[int], beam: int, alpha: float, levels: int
) -> None:
    logits_NV = table(seed, 6)
    if levels:  # few distinct logits: ties everywhere
        logits_NV = logits_NV.clamp(-1, 1).mul(levels).round()
    starts = [(seed * 7 + row) % 97 for row in range(len(limits))]
    together = search(logits_NV, starts, limits, beam, alpha, n_best=beam)
    alone = [search(logits_NV, [start], [limit], beam, alpha, n_best=beam)[0] for start, limit in zip(starts, limits)]
    assert together == alone
    assert together == search(logits_NV, starts, limits, beam, alpha, n_best=beam)


@settings(max_examples=60)
@given(
    seed=SEEDS,
    limits=st.lists(st.integers(1, 10), max_size=6),
    alpha=ALPHAS,
    minimum=st.integers(0, 4),
    ties=st.booleans(),
)
def test_a_beam_of_one_is_greedy(seed: int, limits: list[int], alpha: float, minimum: int, ties: bool) -> None:
    logits_NV = table(seed, 5)
    logits_NV = logits_NV.round() if ties else logits_NV
    starts = [(seed + row) % 97 for row in range(len(limits))]
    found = search(logits_NV, starts, limits, 1, alpha, minimum=minimum)
    state = TableState(logits_NV, starts)
    direct = greedy(state, sos=SOS, eos=EOS, limits=limits, minimum_length=minimum)
    assert [(one.ids, one.finished, one.token_logprobs) for (one,) in found] == [
        (one.ids, one.finished, one.token_logprobs) for one in direct
    ]


def test_all_lanes_step_from_the_start_and_sentences_leave_when_they_are_done() -> None:
    limits, beam = [2, 5, 3], 4
    state = TableState(table(3, 8).index_fill(1, torch.tensor([EOS]), -50.0), [1, 2, 3])
    beam_search(state, sos=SOS, eos=EOS, beam=beam, alpha=0.6, limits=limits)
    step = {rows: ("step", rows * beam) for rows in (1, 2, 3)}
    assert state.calls == [step[3], step[3], ("compact", 2 * beam), step[2], ("compact", beam), step[1], step[1]]


def test_rows_follow_their_hypotheses() -> None:
    """The histories that select carried along are the hypotheses found; a wrong parent would mix them up."""
    limits, beam = [6, 6, 6], 3
    logits_NV = table(11, 9).index_fill(1, torch.tensor([EOS]), -50.0)
    state = TableState(logits_NV, [5, 6, 7])
    found = beam_search(state, sos=SOS, eos=EOS, beam=beam, alpha=1.0, limits=limits, n_best=beam)
    prefixes = {
        (history[0], *history[2:]) for lanes in state.histories for history in lanes
    }  # start key, then all but the last token
    assert {(start, *one.ids[:-1]) for start, ones in zip([5, 6, 7], found) for one in ones} <= prefixes


def test_stops_as_soon_as_nothing_alive_can_win() -> None:
    certain_end = torch.full((97, 4), -20.0).index_fill(1, torch.tensor([EOS]), 20.0)
    state = TableState(certain_end, [0])
    (found,) = beam_search(state, sos=SOS, eos=EOS, beam=4, alpha=0.6, limits=[500])
    assert found[0].ids == []
    assert state.calls == [("step", 4)]


def test_goes_on_while_a_longer_hypothesis_can_win() -> None:
    """Ending at once has probability 0.55, ending after two tokens 0.45: only the length penalty prefers the longer."""
    logits_NV = torch.full((97, 3), -math.inf)
    first = after(0, SOS)
    second = after(first, 2)
    third = after(second, 2)
    logits_NV[first, EOS], logits_NV[first, 2] = math.log(0.55), math.log(0.45)
    logits_NV[second, 2] = logits_NV[third, EOS] = 0.0
    ids = {alpha: search(logits_NV, [0], [10], 2, alpha)[0][0].ids for alpha in (0.0, 2.0)}
    assert ids == {0.0: [], 2.0: [2, 2]}


def test_banned_tokens_and_early_ends_never_come_out_and_do_not_change_probabilities() -> None:
    logits_NV = table(5, 6)
    found = search(logits_NV, [1, 2, 3, 4], [6] * 4, 4, 0.6, n_best=4, banned=(SOS, 3), minimum=2)
    assert any(one.finished for ones in found for one in ones)
    for start, ones in zip([1, 2, 3, 4], found):
        oracle = Oracle(logits_NV, start)
        for one in ones:
            assert len(one.ids) >= 2
            assert not {SOS, EOS, 3} & set(one.ids)
            tokens = [*one.ids, EOS] if one.finished else one.ids
            own = [{t: p for p, t in oracle.nexts(tokens[:i])}[token] for i, token in enumerate(tokens)]
            assert one.token_logprobs == pytest.approx(own, abs=1e-6)


def test_where_nothing_can_follow_the_path_up_to_there_is_returned() -> None:
    nothing = torch.full((97, 4), -math.inf)
    assert search(nothing, [0, 1], [3, 3], 3, 0.6) == [[Hypothesis([], 0.0, 0.0, False, [])]] * 2
    once = nothing.clone()
    once[Oracle(nothing, 0).start, 2] = 0.0
    (only,) = search(once, [0], [3], 3, 0.0, n_best=2)
    assert only == [Hypothesis([2], 0.0, 0.0, False, [0.0])]


def test_a_maximum_of_one_either_ends_or_is_cut() -> None:
    logits_NV = torch.tensor([0.0, 2.0, 1.0]).expand(97, 3)
    ((first, second),) = search(logits_NV, [0], [1], 2, 0.6, n_best=2)
    assert (first.ids, first.finished) == ([], True)
    assert (second.ids, second.finished) == ([2], False)


def test_ties_go_to_the_lower_token_and_the_better_parent() -> None:
    level = torch.zeros(97, 5).index_fill(1, torch.tensor([SOS, EOS]), -9.0)
    ((*found,),) = search(level, [0], [2], 3, 0.0, n_best=3)
    assert [one.ids for one in found] == [[2, 2], [2, 3], [2, 4]]


def test_bfloat16_logits_are_normalised_in_float32() -> None:
    logits_NV = table(2, 50).bfloat16()
    low = search(logits_NV, [0, 1], [5, 5], 4, 0.6)
    assert low == search(logits_NV.float(), [0, 1], [5, 5], 4, 0.6)


def test_no_rows_no_hypotheses() -> None:
    assert search(table(0, 4), [], [], 4, 0.6) == []


@pytest.mark.parametrize(
    ("beam", "alpha", "n_best", "limits"),
    [(0, 0.6, 1, [3]), (2, -1.0, 1, [3]), (2, 0.6, 3, [3]), (2, 0.6, 1, [3, 3]), (2, 0.6, 1, [0])],
)
def test_bad_arguments_are_told(beam: int, alpha: float, n_best: int, limits: list[int]) -> None:
    with pytest.raises(UserError):
        search(table(0, 4), [0], limits, beam, alpha, n_best=n_best)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_model_is_told(bad: float) -> None:
    logits_NV = table(0, 4)
    logits_NV[:, 2] = bad
    with pytest.raises(UserError, match="not numbers"):
        search(logits_NV, [0], [3], 2, 0.6)
