"""What is banned and what is forced, in every search: against plain loops, exhaustive search and Hugging Face's bad words.

The best tokens of a row, against a full stable sort; what is fixed against what looks first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.decode.algorithm import CapturedGraphs
from regard.decode.candidates import Candidates, ConstraintMask, Constraints, log_probabilities, topk_by_key, topk_by_sorting
from regard.decode.config import Sampling
from regard.decode.request import Hypothesis
from tests.decode.searches import beam_search, greedy, sample
from tests.decode.tape import TapeRecorder
from tests.decode.test_cuda_graphs import MODEL, batch
from tests.decode.toy import EOS, SOS, Oracle, TableState, after, table

SEEDS = st.integers(0, 10_000)
SEQUENCES = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4), min_size=1, max_size=6)
EVERY = ["greedy", "sample", "penalty", "beam"]


def run(kind: str, reading: Any, rows: int, **options: Any) -> list[list[Hypothesis]]:
    """Everything each search has found."""
    if kind == "beam":
        return beam_search(reading, beam=4, alpha=0.6, n_best=4, **options)
    if kind in ("sample", "penalty"):
        choice = Sampling(temperature=1.5, repetition_penalty=1.3 if kind == "penalty" else 1.0)
        return [[one] for one in sample(reading, method=choice, seeds=range(rows), **options)]
    return [[one] for one in greedy(reading, **options)]


@settings(max_examples=60)
@given(seed=SEEDS, sequences=SEQUENCES, length=st.integers(1, 6))
def test_sequences_are_hugging_faces_bad_words(seed: int, sequences: list[list[int]], length: int) -> None:
    import transformers.generation.logits_process as process

    text_BN = torch.randint(7, (20, length), generator=torch.Generator().manual_seed(seed))
    scores_BV = torch.randn(20, 7, generator=torch.Generator().manual_seed(seed)).log_softmax(1)
    expected_BV = process.NoBadWordsLogitsProcessor(sequences, eos_token_id=99)(text_BN, scores_BV.clone())
    constraints = Constraints(eos=0, banned_sequences=tuple(map(tuple, sequences)))
    none_BN = torch.full((20, constraints.context), -1)
    tail_BN = torch.cat([none_BN, text_BN], 1)[:, length:]
    ConstraintMask(constraints, scores_BV.device).apply(scores_BV, torch.tensor([length]), tail_BN, None)
    assert torch.equal(scores_BV, expected_BV)


def completed(text: Sequence[int], sequences: list[list[int]], written: int) -> bool:
    """Does one of them end among the last `written` tokens?"""
    return any(
        list(text[end - len(sequence) : end]) == sequence
        for sequence in sequences
        for end in range(max(len(sequence), len(text) - written + 1), len(text) + 1)
    )


@pytest.mark.parametrize("kind", EVERY)
@settings(max_examples=25)
@given(
    seed=SEEDS, sequences=SEQUENCES, prompts=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6), min_size=1, max_size=4)
)
def test_no_banned_sequence_is_completed_in_the_text_or_across_its_prompt(
    kind: str, seed: int, sequences: list[list[int]], prompts: list[list[int]]
) -> None:
    sequences = [sequence for sequence in sequences if sequence != [EOS]]
    state = TableState(table(seed, 7, spread=1.0), [(seed + row) % 97 for row in range(len(prompts))])
    first = torch.tensor([prompt[-1] for prompt in prompts])
    options = dict(sos=first, eos=EOS, limits=[8] * len(prompts), prompts=prompts, banned_sequences=sequences)
    for prompt, found in zip(prompts, run(kind, state, len(prompts), **options)):
        for one in found:
            tokens = [*one.ids, *[EOS] * one.finished]
            assert not completed([*prompt, *tokens], sequences, len(tokens))


class Barred(Oracle):
    def __init__(self, logits_NV: Tensor, start: int, sequences: list[list[int]]) -> None:
        super().__init__(logits_NV, start)
        self.sequences = sequences

    def nexts(self, ids: Sequence[int]) -> list[tuple[float, int]]:
        return [(p, t) for p, t in super().nexts(ids) if not completed([SOS, *ids, t], self.sequences, 1)]


@settings(max_examples=40)
@given(seed=SEEDS, sequences=st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=3), min_size=1, max_size=4))
def test_a_wide_beam_finds_the_best_text_without_banned_sequences(seed: int, sequences: list[list[int]]) -> None:
    logits_NV = table(seed, 4)
    oracle = Barred(logits_NV, seed % 97, sequences)
    finished: list[tuple[float, tuple[int, ...]]] = []
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for _ in range(4):
        grown = [(total + p, (*ids, token)) for total, ids in live for p, token in oracle.nexts(ids)]
        finished += [(total, ids[:-1]) for total, ids in grown if ids[-1] == EOS]
        live = [(total, ids) for total, ids in grown if ids[-1] != EOS]
    expected = [list(ids) for _, ids in sorted(finished, reverse=True)][:9]
    options = dict(sos=SOS, eos=EOS, beam=256, alpha=0.0, n_best=9, limits=[4], banned_sequences=sequences)
    (found,) = beam_search(TableState(logits_NV, [seed % 97]), **options)
    assert [one.ids for one in found if one.finished] == expected


@pytest.mark.parametrize("kind", EVERY)
def test_what_is_forced_comes_whatever_is_banned_and_keeps_its_probability(kind: str) -> None:
    logits_NV, starts = table(3, 9), [5, 6, 7, 8]
    forced = [[3, 4, 3], [], [2], [7, EOS, 7]]
    options = dict(sos=SOS, eos=EOS, limits=[6, 6, 6, 6], minimum_length=4, banned=(2, 3), forced=forced)
    for start, begin, found in zip(starts, forced, run(kind, TableState(logits_NV, starts), 4, **options)):
        for one in found:
            tokens, oracle = [*one.ids, *[EOS] * one.finished], Oracle(logits_NV, start)
            assert tokens[: len(begin)] == begin[: len(tokens)]
            assert not {2, 3} & set(tokens[len(begin) :])
            assert one.finished or len(tokens) == 6
            own = [{t: p for p, t in oracle.nexts(tokens[:i])}[token] for i, token in enumerate(tokens)]
            assert one.token_logprobs == pytest.approx(own, abs=1e-6)
        if begin == forced[-1]:
            assert [(one.ids, one.finished) for one in found] == [([7], True)]


def test_after_a_forced_beginning_the_search_is_the_one_from_there() -> None:
    """With two tokens forced, what follows is what another row finds, whose key is already there."""
    logits_NV = table(8, 9)
    forced = dict(sos=SOS, eos=EOS, limits=[8], forced=[[4, 6]])
    there = dict(sos=6, eos=EOS, limits=[6])
    start, beam = after(after(5, SOS), 4), dict(beam=4, alpha=0.0, n_best=4)
    (whole,) = beam_search(TableState(logits_NV, [5]), **beam, **forced)
    (rest,) = beam_search(TableState(logits_NV, [start]), **beam, **there)
    assert [one.ids for one in whole] == [[4, 6, *one.ids] for one in rest]
    (whole_one,), (rest_one,) = (
        greedy(TableState(logits_NV, [key]), **options) for key, options in ((5, forced), (start, there))
    )
    assert whole_one.ids == [4, 6, *rest_one.ids]
    assert len(rest_one.ids) > 1


@pytest.mark.parametrize("kind", EVERY)
def test_where_no_token_is_the_end_none_is_held_back_and_texts_run_to_their_maximum(kind: str) -> None:
    last = torch.zeros(97, 5).index_fill(1, torch.tensor([4]), 20.0)
    for found in run(kind, TableState(last, [0, 1]), 2, sos=SOS, eos=-1, limits=[5, 3], minimum_length=2):
        assert not any(one.finished for one in found)
        assert set(found[0].ids) == {4}


@pytest.mark.parametrize("kind", EVERY)
def test_recorded_searches_ban_and_force_alike(kind: str) -> None:
    sessions = CapturedGraphs(TapeRecorder())
    for number, limits in enumerate([[40, 3, 25], [30, 40, 12, 9], [40, 3, 25]]):
        forced = [[5, 6, 7], [], *[[9]] * (len(limits) - 2)]
        options = dict(sos=1, eos=2, limits=limits, forced=forced, banned_sequences=[(7, 7), (9, 10, 11), (12,)])
        found, plain = (
            run(kind, MODEL.start(*batch(number, len(limits), 9)), len(limits), sessions=mine, **options)
            for mine in (sessions, None)
        )
        assert [[one.ids for one in some] for some in found] == [[one.ids for one in some] for some in plain]
        assert all(one.ids[: len(begin)] == begin[: len(one.ids)] for some, begin in zip(found, forced) for one in some)
    assert len(sessions.idle) == 1


CPU = torch.device("cpu")
both = pytest.mark.parametrize("fixed", [True, False])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 5),
    size=st.integers(1, 300),
    count=st.integers(1, 12),
    levels=st.sampled_from([1, 2, 5, 1000]),
)
def test_the_first_largest_are_the_head_of_a_stable_sort(seed: int, rows: int, size: int, count: int, levels: int) -> None:
    values = -torch.randint(levels, (rows, size), generator=torch.Generator().manual_seed(seed)).float() / 7
    values[values == values.min()] = -torch.inf
    indices = values.sort(dim=1, descending=True, stable=True).indices
    assert torch.equal(topk_by_sorting(values, count), indices[:, :count])
    assert torch.equal(topk_by_key(values, count), indices[:, :count])


def test_zeros_of_both_signs_tie() -> None:
    assert topk_by_key(torch.tensor([[-0.0, 0.0, -1.0], [0.0, -0.0, -1.0]]), 2).tolist() == [[0, 1], [0, 1]]


@both
def test_the_logits_are_left_alone_and_empty_rows_offer_nothing(fixed: bool) -> None:
    logits = torch.tensor([[0.0, 1.0, 0.5], [-torch.inf, -torch.inf, -torch.inf]])
    before = logits.clone()
    candidates = Candidates(Constraints(eos=0, banned=(1,), minimum_length=1), CPU, fixed=fixed)
    logprob, token, broken = candidates.best(logits, 2, torch.tensor([0]))
    assert torch.equal(logits, before)
    assert token[0, 0] == 2
    assert logprob.isneginf().tolist() == [[False, True], [True, True]]
    assert not broken.any()
    assert torch.equal(log_probabilities(logits, fixed=fixed)[0][0], torch.log_softmax(logits[0], 0))


@both
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_bad_number_breaks_its_row_and_no_other(fixed: bool, bad: float) -> None:
    logits = torch.zeros(4, 5)
    logits[1] = -torch.inf
    logits[2] = -torch.inf
    logits[2, 3] = bad
    logits[3, 4] = bad
    _, empty, broken = log_probabilities(logits, fixed=fixed)
    assert empty.tolist() == [False, True, False, False]
    assert broken.tolist() == [False, False, True, True]


@both
@pytest.mark.parametrize("count", [1, 2])
def test_a_row_may_end_from_its_minimum_on(fixed: bool, count: int) -> None:
    candidates = Candidates(Constraints(eos=0, minimum_length=2), CPU, fixed=fixed)
    logits = torch.tensor([[5.0, 1.0, 2.0]])
    assert [candidates.best(logits, count, torch.tensor([step])).token_BK[0, 0].item() for step in range(4)] == [2, 2, 0, 0]
