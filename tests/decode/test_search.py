"""Listening: every token is heard once and in order, and a sentence that is stopped ends there, whoever else goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.algorithm import CapturedGraphs
from regard.decode.config import Sampling
from regard.decode.request import Hypothesis
from regard.decode.search import CHECK_EVERY
from tests.decode.searches import greedy, sample
from tests.decode.tape import TapeRecorder
from tests.decode.test_cuda_graphs import MODEL, batch
from tests.decode.toy import EOS, SOS, TableState, table

both = pytest.mark.parametrize("drawn", [False, True], ids=["greedy", "sample"])


def run(drawn: bool, reading: Any, rows: int, **options: Any) -> list[Hypothesis]:
    return sample(reading, method=Sampling(), seeds=range(rows), **options) if drawn else greedy(reading, **options)


class Ear:
    """Hears, and stops a sentence once it has heard enough of it."""

    def __init__(self, enough: Callable[[int, list[int]], bool]) -> None:
        self.enough = enough
        self.heard: dict[int, list[int]] = defaultdict(list)
        self.looks: dict[int, int] = defaultdict(int)
        self.stopped: set[int] = set()

    def __call__(self, sentence: int, tokens: list[int]) -> bool:
        assert tokens, "called for nothing"
        assert sentence not in self.stopped
        self.heard[sentence] += tokens
        self.looks[sentence] += 1
        if self.enough(sentence, self.heard[sentence]):
            self.stopped.add(sentence)
        return sentence in self.stopped


@both
@settings(max_examples=40)
@given(seed=st.integers(0, 1000), limits=st.lists(st.integers(1, 12), min_size=1, max_size=6), dead=st.booleans())
def test_everything_is_heard_once(drawn: bool, seed: int, limits: list[int], dead: bool) -> None:
    logits_NV = table(seed, 6)
    if dead:
        logits_NV[::4] = -torch.inf
    starts = [(seed + 11 * row) % 97 for row in range(len(limits))]
    ear = Ear(lambda *_: False)
    options = dict(sos=SOS, eos=EOS, limits=limits)
    found = run(drawn, TableState(logits_NV, starts), len(limits), listener=ear, **options)
    assert found == run(drawn, TableState(logits_NV, starts), len(limits), **options)
    assert [ear.heard[row] for row in range(len(limits))] == [one.ids for one in found]
    assert [ear.looks[row] for row in range(len(limits))] == [len(one.ids) for one in found]  # on a CPU one at a time


@both
@settings(max_examples=40)
@given(seed=st.integers(0, 1000), wanted=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_sentence_ends_where_it_is_stopped_and_the_others_do_not_notice(drawn: bool, seed: int, wanted: list[int]) -> None:
    logits_NV = table(seed, 6)
    starts = [(seed + 11 * row) % 97 for row in range(len(wanted))]
    options = dict(sos=SOS, eos=EOS, limits=[7] * len(wanted))
    ear = Ear(lambda sentence, heard: len(heard) == wanted[sentence])
    whole = run(drawn, TableState(logits_NV, starts), len(wanted), **options)
    state = TableState(logits_NV, starts)
    found = run(drawn, state, len(wanted), listener=ear, **options)
    for row, (one, uncut) in enumerate(zip(found, whole)):
        assert one.ids == uncut.ids[: wanted[row]]
        assert one.token_logprobs[: len(one.ids)] == uncut.token_logprobs[: len(one.ids)]
        assert one.finished == (uncut.finished and len(uncut.ids) < wanted[row])
    tokens = [len(one.ids) + one.finished for one in found]
    assert sum(count for name, count in state.calls if name == "step") == sum(tokens)  # nobody steps who has stopped


@both
@pytest.mark.parametrize(
    "wanted", [[3, 20, 99, 8, 1, 1], [99, 99, 9, 99, 99, 99]], ids=["many leave", "one stays until others leave"]
)
def test_who_looks_seldom_hears_several_and_may_find_more_than_was_wanted(drawn: bool, wanted: list[int]) -> None:
    limits = [40, 40, 30, 40, 40, 40]
    sessions = CapturedGraphs(TapeRecorder())
    options = dict(sos=1, eos=2, limits=limits, banned=(0, 1), minimum_length=25)
    whole = run(drawn, MODEL.start(*batch(3, 6, 9)), 6, **options)
    for _ in range(2):  # the second time, every step is replayed
        ear = Ear(lambda sentence, heard: len(heard) >= wanted[sentence])
        found = run(drawn, MODEL.start(*batch(3, 6, 9)), 6, sessions=sessions, listener=ear, **options)
        for row, one in enumerate(found):
            assert one.ids == ear.heard[row] == whole[row].ids[: len(one.ids)]
            looks = -(-wanted[row] // CHECK_EVERY)
            assert len(one.ids) == min(looks * CHECK_EVERY, len(whole[row].ids))
            assert wanted[row] == 99 or ear.looks[row] == looks


def test_all_may_be_stopped_at_the_first_token() -> None:
    state = TableState(table(0, 5).index_fill(1, torch.tensor([EOS]), -50.0), [1, 2, 3])
    found = greedy(state, sos=SOS, eos=EOS, limits=[9, 9, 9], listener=lambda *_: True)
    assert [len(one.ids) for one in found] == [1, 1, 1]
    assert not any(one.finished for one in found)
    assert state.calls == [("step", 3)]


def test_samples_of_one_row_are_heard_apart() -> None:
    ear = Ear(lambda *_: False)
    options = dict(sos=SOS, eos=EOS, limits=[6, 6], method=Sampling(), seeds=range(6), listener=ear)
    found = sample(TableState(table(2, 9), [1, 2]), **options)
    assert [ear.heard[text] for text in range(6)] == [one.ids for one in found]
