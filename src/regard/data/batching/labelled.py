"""Labelled texts become batches of numbers: each text between its marks, with texts of like length, or packed end to end.

    one text    start text end
    a pair      start text between second end        (RoBERTa's: between twice)
    apart       start text end start second end      each of the two a text of its own to the model
    sentences   start sentence between sentence end  of one text, to a model that reads sentence by sentence

Which ids the marks are is for the model's family to say. Dims: N texts, B rows of L tokens; padded, B is N; packed, it is 1.
Of pairs that are read apart there are N labels and 2 N texts, every second one belonging to the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import IGNORED, Packing, Words, fill_up, to_device
from regard.data.batching.pairs import Ragged, TextBatches, digest, pad_rows, rows_by_length

UNLABELLED = -1  # the label of a text that has none


class SpecialTokens(NamedTuple):
    start: int
    between: int
    end: int
    twice: bool = False  # two marks between the texts of a pair, as RoBERTa has them
    apart: bool = False  # each text of a pair has marks, and room, of its own
    sentences: bool = False  # of a text have a mark between them

    def around(self, texts: Sequence[list[int]], room: int) -> tuple[list[int], int]:
        """Return the ids of a text or a pair with special tokens, cut to fit, and where the second text begins (or the end)."""
        if self.apart:
            each = [[self.start, *text[: room - 2], self.end] for text in texts]
            return [number for ids in each for number in ids], len(each[0])
        first, *others = _cut(texts, room - self.length([[]] * len(texts)))
        if not others:
            return [self.start, *first, self.end], len(first) + 2
        between = [self.between] * (1 + self.twice)
        return [self.start, *first, *between, *others[0], self.end], len(first) + 1 + len(between)

    def length(self, texts: Sequence[list[int]]) -> int:
        """Return the uncut length in tokens of these texts; of the longer one if they are read separately."""
        if self.apart:
            return 2 + max(map(len, texts))
        return 2 + sum(map(len, texts)) + (1 + self.twice) * (len(texts) - 1)


def _cut(texts: Sequence[list[int]], room: int) -> list[list[int]]:
    """Cut texts to fit into `room` tokens, the longer of two first."""
    if len(texts) == 1:
        return [texts[0][:room]]
    first, second = texts
    of_second = min(len(second), max(room // 2, room - len(first)))
    return [first[: room - of_second], second[:of_second]]


@dataclass(frozen=True)
class LabelledTexts:
    ids: Ragged  # marks included
    seconds: np.ndarray  # where in each the second text begins
    labels: np.ndarray
    apart: bool = False  # are the texts of a pair read apart?

    def __len__(self) -> int:
        return len(self.ids)

    def __add__(self, more: LabelledTexts) -> LabelledTexts:
        seconds, labels = (np.concatenate(both) for both in ((self.seconds, more.seconds), (self.labels, more.labels)))
        return LabelledTexts(self.ids + more.ids, seconds, labels, self.apart)

    def digest(self) -> str:
        return digest(self.ids, self.seconds, self.labels)


@dataclass(frozen=True)
class LabelledBatch:
    ids_BL: Tensor
    words: Words  # lengths_B, or how the texts are packed
    segments_BL: Tensor  # 0 for the first text, 1 for the second
    labels_N: Tensor  # UNLABELLED where a text has none, IGNORED where packed texts end and filler begins
    tokens: int  # what the loss is counted in: here, texts

    to = to_device


def make_batch(data: LabelledTexts, rows: np.ndarray, packed: bool = False) -> LabelledBatch:
    flat, lengths = data.ids.take(rows)
    seconds, labels = data.seconds[rows], data.labels[rows]
    if data.apart:
        lengths = seconds = np.stack([seconds, lengths - seconds], 1).reshape(-1)
    places = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    segments = (places >= np.repeat(seconds, lengths)).astype(np.int64)
    if packed:
        words = Packing.filled(lengths)
        ids_BL, segments_BL = (fill_up(part, words.tokens)[None] for part in (flat.astype(np.int64), segments))
        labelled = words.sequences // 2 if data.apart else words.sequences
        return LabelledBatch(ids_BL, words, segments_BL, fill_up(labels, labelled, IGNORED), len(rows))
    ids_BL, lengths_B = pad_rows(flat, lengths)
    return LabelledBatch(ids_BL, lengths_B, pad_rows(segments, lengths)[0], torch.from_numpy(labels), len(rows))


class LabelledBatches(TextBatches[LabelledTexts]):
    def batch(self, rows: np.ndarray, epoch: int) -> LabelledBatch:
        return make_batch(self.data, rows, self.packed)

    def in_order(self) -> list[LabelledBatch]:
        """Return every text once, in batches of similar length, for scoring."""
        return [make_batch(self.data, rows) for rows in rows_by_length(self.data.ids.lengths, self.tokens)]
