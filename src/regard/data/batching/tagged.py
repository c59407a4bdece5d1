"""Batches of tagged sentences: words as tokens, of which the first has the tag, in windows that fit the model.

A word is cut into pieces by itself, as it stands in the columns of a file and as it is found in a text, so both are read alike; a
vocabulary of bytes gets the space that would stand before it. Whatever comes to no piece at all, such as a word of invisible
characters, is an unknown one. The pieces of a window stand between the marks of the model's family.

Dims: W words that are asked for, C tags, B rows of L tokens; packed, B is 1.

A sentence longer than a model can see is read in overlapping windows, cut at word ends, and every word is asked of one.

Each window begins about half a window behind the one before. A word that stands in two of them is asked of the one where it has
more context on its shorter side: up to the middle of what they share it is the first one's, from there on the second one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from torch import Tensor

from regard.core.packing import IGNORED, Packing, Words, fill_up, round_up, to_device
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.pairs import Ragged, TextBatches, digest, pad_rows
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class WordReader:
    """Encoder of sentences that are given as words, for the vocabulary of a model."""

    tokenizer: Tokenizer
    marks: SpecialTokens
    window: int  # tokens that are seen together, marks counted

    def encode(self, sentences: Sequence[Sequence[str]]) -> tuple[Ragged, Ragged]:
        """Return the ids of every window with its special tokens, and where the words begin that it is responsible for.

        All the latter, one after the other, are the words of the sentences in their order.
        """
        room, unknown = self.window - 2, self.tokenizer.roles.unk
        known = sorted({word for words in sentences for word in words})
        spaced = [f" {word}" for word in known] if self.tokenizer.decodes("ByteLevel") else known
        nothing = [self.marks.end if unknown is None else unknown]
        # Each word is encoded once; one that would fill a window keeps its first tokens.
        pieces = {word: ids[: room // LARGEST] or nothing for word, ids in zip(known, self.tokenizer.encode_batch(spaced))}
        rows, places = list[list[int]](), list[np.ndarray]()
        for words in sentences:
            cut = [pieces[word] for word in words]
            sizes = np.array([len(ids) for ids in cut])
            starts = np.cumsum(sizes) - sizes
            for first, last, asked, until in word_windows(sizes.tolist(), room):
                rows.append([self.marks.start, *(i for ids in cut[first:last] for i in ids), self.marks.end])
                places.append(1 + starts[asked:until] - starts[first])
        return Ragged(rows), Ragged(places)  # type: ignore[arg-type]


@dataclass(frozen=True)
class TaggedTexts:
    ids: Ragged  # of windows, marks included
    places: Ragged  # in each, where the words begin that are asked of it
    tags: Ragged  # of these words

    @classmethod
    def of(cls, ids: Ragged, places: Ragged, tags: np.ndarray) -> TaggedTexts:
        """Build from encoded sentences and the tags of all their words, in order."""
        return cls(ids, places, Ragged([tags[a:b] for a, b in pairwise(places.offsets)]))  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def words(self) -> int:
        return len(self.places.flat)

    def digest(self) -> str:
        return digest(self.ids, self.places, self.tags)


@dataclass(frozen=True)
class TaggedBatch:
    ids_BL: Tensor
    words: Words  # lengths_B, or how the windows are packed
    places_W: Tensor  # of the words asked for, among all B times L
    tags_W: Tensor  # IGNORED where packed words end and filler begins
    tokens: int  # what the loss is counted in: here, words

    to = to_device


def make_batch(data: TaggedTexts, rows: np.ndarray, packed: bool = False) -> TaggedBatch:
    flat, lengths = data.ids.take(rows)
    places, asked = data.places.take(rows)
    tags = data.tags.take(rows)[0].astype(np.int64)
    starts = np.cumsum(lengths) - lengths if packed else np.arange(len(rows)) * lengths.max()
    places, size = places + np.repeat(starts, asked), round_up(len(places)) if packed else len(places)
    places_W, tags_W = fill_up(places, size), fill_up(tags, size, IGNORED)
    if packed:
        words = Packing.filled(lengths)
        return TaggedBatch(fill_up(flat.astype(np.int64), words.tokens)[None], words, places_W, tags_W, len(tags))
    return TaggedBatch(*pad_rows(flat, lengths), places_W, tags_W, len(tags))


class TaggedBatches(TextBatches[TaggedTexts]):
    def count(self, rows: np.ndarray) -> int:
        return int(self.data.places.lengths[rows].sum())

    def batch(self, rows: np.ndarray, epoch: int) -> TaggedBatch:
        return make_batch(self.data, rows, self.packed)


LARGEST = 4  # a word may fill a quarter of a window: then every window has several, and neighbours overlap


class WordWindow(NamedTuple):
    """Words `first` to `last` are seen, and of those `asked` to `until` it is said what they are; ends not included."""

    first: int
    last: int
    asked: int
    until: int


def word_windows(sizes: Sequence[int], room: int) -> list[WordWindow]:
    """Split words of these numbers of tokens into windows; none of them has more than `room // LARGEST` tokens."""
    if sum(sizes) <= room:
        return [WordWindow(0, len(sizes), 0, len(sizes))]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    seen, first = list[tuple[int, int]](), 0
    while True:
        last = int(np.searchsorted(ends, starts[first] + room, side="right"))
        seen.append((first, last))
        if last == len(sizes):
            break
        first = int(np.searchsorted(starts, starts[first] + room // 2))
    turns = [0, *(_turn(starts, ends, last, first) for (_, last), (first, _) in pairwise(seen)), len(sizes)]
    return [WordWindow(*window, asked, until) for window, asked, until in zip(seen, turns, turns[1:])]


def _turn(starts: np.ndarray, ends: np.ndarray, last: int, first: int) -> int:
    """Choose the word at which the window that ends before `last` gives way to the next one, which begins with `first`."""
    shared = np.arange(first, last)
    left_behind = ends[last - 1] - ends[shared]
    gained = starts[shared] - starts[first]
    return first + int(np.count_nonzero(gained < left_behind))
