"""Questions about texts become batches of numbers, in windows (Devlin et al. 2019, section 4.2):

    [CLS] question [SEP] a part of the context [SEP]

A context that does not fit is cut into parts that overlap, and each is asked the same question. The aim is the first and the last
token of the answer; where a part does not have all of it, both are [CLS]: not here. Which ids the marks are is for the model's
family to say; RoBERTa has two between question and context. With `compares`, a third segment marks the tokens of
the context that the question has too, as in DrQA (Chen et al. 2017, section 3.2): from scratch, attention takes long to find that
out. Dims: N windows, B rows of L tokens; padded, B is N; packed, it is 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import IGNORED, Packing, Words, fill_up, to_device
from regard.data.batching.pairs import Ragged, TextBatches, digest, pad_rows
from regard.text.offsets import Placed

Span = tuple[int, int]  # the first and the last token


class Layout(NamedTuple):
    """Layout of a question and a part of its context in a window."""

    start: int
    between: tuple[int, ...]
    end: int
    window: int  # tokens, marks counted
    stride: int  # tokens of the context by which windows move on; 0: half of those in it
    question: int  # tokens; what is beyond is cut off
    compares: bool = False  # is it marked which tokens of the context the question has too?

    def before(self, question: list[int]) -> list[int]:
        return [self.start, *question[: self.question], *self.between]

    def parts(self, before: int, context: int) -> Iterator[range]:
        """Return the parts of a context of this many tokens, with this many tokens before it in every window."""
        room = self.window - before - 1
        step = self.stride or max(1, room // 2)
        begin = 0
        while begin + room < context:
            yield range(begin, begin + room)
            begin += step
        yield range(begin, context)


@dataclass(frozen=True)
class Windows:
    ids: Ragged  # marks included
    shared: np.ndarray  # for each of all ids: is it one of the context that the question has too?
    contexts: np.ndarray  # where in each its part of the context begins; it ends before the last mark
    targets: np.ndarray  # first and last token of the answer in each; 0 and 0: not here
    questions: np.ndarray  # the number of its question
    begins: np.ndarray  # which token of the whole context its part begins with

    def __len__(self) -> int:
        return len(self.ids)

    def digest(self) -> str:
        return digest(self.ids, self.shared, self.contexts, self.targets, self.questions)

    @property
    def lost(self) -> int:
        """Return the number of questions whose whole answer is in no window."""
        here = np.zeros(int(self.questions.max()) + 1, bool)
        here[self.questions[self.targets[:, 0] > 0]] = True
        return int((~here).sum())


def windows(
    layout: Layout, questions: Sequence[list[int]], contexts: Sequence[Placed], answers: Sequence[Span | None]
) -> Windows:
    """Cut every question with its context into windows; None where there is no answer, or none is known."""
    rows, found = list[list[int]](), list[tuple[int, int, int, int, int]]()
    for number, (question, context, answer) in enumerate(zip(questions, contexts, answers)):
        before = layout.before(question)
        for part in layout.parts(len(before), len(context.ids)):
            rows.append([*before, *context.ids[part.start : part.stop], layout.end])
            here = answer is not None and answer[0] in part and answer[1] in part
            first, last = (place - part.start + len(before) for place in answer) if answer and here else (0, 0)
            found.append((len(before), first, last, number, part.start))
    table = np.array(found, np.int64).reshape(-1, 5)
    ids = Ragged(rows)
    shared = np.zeros(len(ids.flat), bool)
    for begin, before, end in zip(ids.offsets, table[:, 0], ids.offsets[1:]) if layout.compares else ():
        there = slice(begin + before, end - 1)
        shared[there] = np.isin(ids.flat[there], ids.flat[begin + 1 : begin + before])
    return Windows(ids, shared, table[:, 0], table[:, 1:3], table[:, 3], table[:, 4])


@dataclass(frozen=True)
class SpanBatch:
    ids_BL: Tensor
    words: Words  # lengths_B, or how the windows are packed
    segments_BL: Tensor  # 0 for the question, 1 for the context, 2 for what it shares with the question
    choosable_BL: Tensor  # where an answer may start or end: in the context, or at [CLS]
    targets_N2: Tensor  # first and last token of the answer, IGNORED where packed windows end and filler begins
    tokens: int  # what the loss is counted in: here, windows

    to = to_device


def make_batch(data: Windows, rows: np.ndarray, packed: bool = False) -> SpanBatch:
    flat, lengths = data.ids.take(rows)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(len(flat)) - np.repeat(starts, lengths)
    segments = (places >= np.repeat(data.contexts[rows], lengths)).astype(np.int64)
    choosable = ((segments == 1) & (places < np.repeat(lengths - 1, lengths))) | (places == 0)
    segments += data.shared[places + np.repeat(data.ids.offsets[rows], lengths)]
    parts, targets = (flat.astype(np.int64), segments, choosable.astype(np.int64)), data.targets[rows]
    words: Words
    if packed:
        words = Packing.filled(lengths)
        ids_BL, segments_BL, choosable_BL = (fill_up(part, words.tokens)[None] for part in parts)
        targets = np.pad(targets, ((0, words.sequences - len(rows)), (0, 0)), constant_values=IGNORED)
    else:
        words, (ids_BL, segments_BL, choosable_BL) = torch.from_numpy(lengths), (pad_rows(part, lengths)[0] for part in parts)
    return SpanBatch(ids_BL, words, segments_BL, choosable_BL.bool(), torch.from_numpy(targets), len(rows))


class SpanBatches(TextBatches[Windows]):
    def batch(self, rows: np.ndarray, epoch: int) -> SpanBatch:
        return make_batch(self.data, rows, self.packed)
