"""Buffers have the sizes a request needs, and the progress of a search counts and flags each sentence by itself."""

from __future__ import annotations

import torch

from regard.decode.algorithm import BufferSizes, Progress
from regard.decode.config import Sampling
from regard.decode.request import SearchRequest
from regard.model.state.protocol import RowCompaction
from tests.decode.toy import EOS, SOS, TableState, table

CPU = torch.device("cpu")


def flags(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)


def test_sizes_are_those_of_the_request_and_rounded_up_to_few() -> None:
    words = dict(encoded=TableState(table(0, 9), [1, 2, 3]), sos=SOS, eos=EOS, limits=[4, 17, 9])
    assert BufferSizes.of(SearchRequest(**words), fixed=True) == (3, 17, 0, False, True)
    sampled = SearchRequest(**words, method=Sampling(), seeds=range(6), forced=[[], [2], []], banned_sequences=[[1, 2, 3, 4]])
    sizes = BufferSizes.of(sampled, fixed=False)
    assert sizes == (6, 17, 3, True, False)  # a banned sequence of four compares three tokens before the next
    assert sizes.rounded() == (8, 32, 16, True, False)
    prompts = [[SOS], [5] * 30 + [SOS], [SOS]]
    penalised = SearchRequest(**words, method=Sampling(repetition_penalty=1.5), prompts=prompts)
    assert BufferSizes.of(penalised, fixed=False).prompt == 31
    assert BufferSizes.of(SearchRequest(**words, prompts=prompts), fixed=False).prompt == 0  # nothing reads them
    assert BufferSizes.of(SearchRequest(**words, forced=[[], [], []]), fixed=False).forced is False


def test_a_sentence_is_counted_until_it_is_done_and_flagged_until_then() -> None:
    progress = Progress(4, CPU)
    progress.begin([3, 1, 9])
    assert progress.read_flags() == ([False, False, False, True], [False] * 4)  # the fourth place holds no sentence
    progress.advance(flags(0, 0, 0, 0), flags(0, 0, 0, 1))
    assert progress.read_flags() == ([False, True, False, True], [False] * 4)  # at its limit; what is done cannot break
    progress.advance(flags(0, 0, 1, 0), flags(0, 1, 1, 0))
    assert progress.read_flags() == ([False, True, True, True], [False, False, True, False])
    assert progress.length_S.tolist() == [2, 1, 2, 0]
    progress.stop([0])
    assert progress.read_flags()[0] == [True] * 4


def test_rows_move_up_when_sentences_leave_and_all_begin_again() -> None:
    progress = Progress(4, CPU)
    progress.begin([9, 1, 9, 5])
    progress.advance(flags(0, 0, 0, 0), flags(0, 0, 0, 0))
    progress.compact(RowCompaction.of([0, 3], CPU))
    progress.advance(flags(0, 1), flags(0, 0))
    assert progress.read_flags() == ([False, True], [False, False])
    assert progress.length_S[:2].tolist() == [2, 2]
    assert progress.limit_S[:2].tolist() == [9, 5]
    progress.begin([2, 2, 2, 2])
    assert progress.read_flags() == ([False] * 4, [False] * 4)
    assert (progress.steps_S.tolist(), progress.length_S.tolist()) == ([0] * 4, [0] * 4)
