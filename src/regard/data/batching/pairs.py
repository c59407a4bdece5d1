"""Pairs of sentences become batches of numbers, in six steps (lecture row R4):

1. sample pairs                                     `plan`: shuffled, of similar length, up to a token budget
2. append <eos> to the source                       `make_batch`
3. target input = <sos> + target,
   target output = target + <eos>                   `make_batch`
4. pad to the longest of the batch                  `pad_rows`
5. encode words as numbers, unknown ones as <unk>   `encode_pairs`, once, before the first batch
6. keep the lengths                                 `Batch`

Of a public vocabulary, `EncodedPairs.marks` names the ids that stand for <eos>, <sos> and <pad>, and others around a text.

`ExchangeBatches` are of contexts and replies, for contrastive learning: each context's own reply against all others of the batch.
Contexts of like length share a batch; replies come as they come, or their length would give nothing away where it should.

Dims: B pairs, or contexts and as many replies, of L tokens at most (sources: M).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import Packing, count_fillers, fill_up, to_device
from regard.core.rng import generator
from regard.data.sources import Pair
from regard.text.specials import OWN_MARKS, PAD, PairMarks

Encode = Callable[[Sequence[str]], list[list[int]]]


class Ragged:
    """Many number sequences in one flat array: millions of sentences cost no Python objects."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self.lengths = np.fromiter((len(s) for s in sequences), np.int64, len(sequences))
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.flat = np.fromiter((n for s in sequences for n in s), np.int32, int(self.offsets[-1]))

    def __len__(self) -> int:
        return len(self.lengths)

    def __add__(self, more: Ragged) -> Ragged:
        made = Ragged([])
        made.lengths = np.concatenate([self.lengths, more.lengths])
        made.flat = np.concatenate([self.flat, more.flat])
        made.offsets = np.concatenate([[0], np.cumsum(made.lengths)])
        return made

    def __getitem__(self, n: int) -> np.ndarray:
        return self.flat[self.offsets[n] : self.offsets[n + 1]]

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return these sequences end to end, and their lengths, without a Python loop, since training waits meanwhile."""
        lengths = self.lengths[rows]
        starts = np.cumsum(lengths) - lengths
        return self.flat[np.arange(lengths.sum()) + np.repeat(self.offsets[rows] - starts, lengths)], lengths

    def digest(self) -> str:
        return hashlib.sha256(self.offsets.tobytes() + self.flat.tobytes()).hexdigest()


def digest(*parts: Ragged | np.ndarray) -> str:
    """Return the sha256 of all these numbers."""
    found = sha256()
    for part in parts:
        for array in (part.offsets, part.flat) if isinstance(part, Ragged) else (part,):
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


@dataclass(frozen=True)
class EncodedPairs:
    source: Ragged
    target: Ragged
    dropped: int = 0  # pairs left out because a side was too long
    marks: PairMarks = OWN_MARKS  # that batches put around both sides

    def __len__(self) -> int:
        return len(self.source)

    def longest(self) -> np.ndarray:
        """Return the length of each pair's longer side, its marks counted."""
        marks = self.marks
        return np.maximum(self.source.lengths + marks.around_source, self.target.lengths + marks.around_target)

    def digest(self) -> str:
        parts = (part for side in (self.source, self.target) for part in (side.offsets, side.flat))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


@dataclass(frozen=True)
class Batch:
    source_BM: Tensor
    source_lengths_B: Tensor
    target_in_BL: Tensor
    target_out_BL: Tensor
    target_lengths_B: Tensor
    tokens: int  # target words to predict, <eos> included; known to the host
    pad: int = PAD  # fills up short rows, and is not predicted

    to = to_device

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.source_BM, self.source_lengths_B, self.target_in_BL

    def twice(self) -> Batch:
        source, lengths, target_in, target_out, target_lengths = (
            torch.cat([part, part])
            for part in (self.source_BM, self.source_lengths_B, self.target_in_BL, self.target_out_BL, self.target_lengths_B)
        )
        return Batch(source, lengths, target_in, target_out, target_lengths, 2 * self.tokens, self.pad)


@dataclass(frozen=True)
class PackedBatch:
    """The same pairs without padding: all sources in one row, all targets in another."""

    source_BM: Tensor
    source: Packing
    target_in_BL: Tensor
    target_out_BL: Tensor
    target: Packing
    tokens: int
    pad: int = PAD

    to = to_device

    @property
    def inputs(self) -> tuple[Tensor, Packing, Tensor, Packing]:
        return self.source_BM, self.source, self.target_in_BL, self.target

    def twice(self) -> PackedBatch:
        source, target_in, target_out = (torch.cat([p, p], 1) for p in (self.source_BM, self.target_in_BL, self.target_out_BL))
        return PackedBatch(source, self.source.twice(), target_in, target_out, self.target.twice(), 2 * self.tokens, self.pad)


@dataclass(frozen=True)
class PairBatches:
    """Pairs as a source of batches: what the loader draws from."""

    data: EncodedPairs
    tokens: int  # of a batch, on its longer side, padding counted
    seed: int
    packed: bool = False
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        """Plan the batches of an epoch (step 1): arrays of pair numbers, each at most `tokens` tokens wide on its longer side."""
        return plan_by_length(self.data.longest(), self.tokens, self.seed, epoch, self.data.source.lengths)

    def count(self, rows: np.ndarray) -> int:
        return int(self.data.target.lengths[rows].sum()) + len(rows) * self.data.marks.around_target

    def batch(self, rows: np.ndarray, epoch: int) -> Batch | PackedBatch:
        return pack_batch(self.data, rows) if self.packed else make_batch(self.data, rows)


def encode_pairs(
    pairs: Sequence[Pair], source: Encode, target: Encode, maximum: int | None = None, marks: PairMarks = OWN_MARKS
) -> EncodedPairs:
    """Encode pairs (step 5); those with a side longer than `maximum` tokens (<eos> counted) are dropped and counted."""
    sources = source([pair.source for pair in pairs])
    targets = target([pair.target for pair in pairs])
    whole = EncodedPairs(Ragged(sources), Ragged(targets), marks=marks)
    if maximum is None or not len(pairs):
        return whole
    kept = (whole.longest() <= maximum).nonzero()[0].tolist()
    if len(kept) == len(pairs):
        return whole
    return EncodedPairs(Ragged([sources[n] for n in kept]), Ragged([targets[n] for n in kept]), len(pairs) - len(kept), marks)


class OfTexts(Protocol):
    @property
    def ids(self) -> Ragged: ...


Data = TypeVar("Data", bound=OfTexts)


@dataclass(frozen=True)
class TextBatches(Generic[Data]):
    """Base of sources of text batches; a subclass says how a batch is made."""

    data: Data
    tokens: int  # of a batch, padding counted
    seed: int
    packed: bool = False
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        plan = plan_of_all_lengths if self.packed else plan_by_length
        return plan(self.data.ids.lengths, self.tokens, self.seed, epoch)

    def count(self, rows: np.ndarray) -> int:
        return len(rows)


def plan_by_length(lengths: np.ndarray, tokens: int, seed: int, epoch: int, *then: np.ndarray) -> list[np.ndarray]:
    """Plan batches of texts of similar length, those of one length in the order of `then`.

    Equal ones are shuffled among themselves and batches among each other. Where the cuts fall depends on the lengths alone, so
    every epoch has the same number of batches and a step number alone says where a run stands.
    """
    random = generator(seed, "shuffle", epoch)
    order = np.lexsort((random.random(len(lengths)), *then, lengths))
    batches = [order[start:end] for start, end in cuts(lengths[order], tokens)]
    return [batches[n] for n in random.permutation(len(batches))]


def plan_of_all_lengths(lengths: np.ndarray, tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Plan batches of texts of all lengths, for packed batches, which need no padding.

    There are as many batches as of padded texts, so that an epoch is as many steps on every device. From the longest to the
    shortest, texts are dealt like cards, one to every batch before any gets another: batches have about as many tokens each.
    """
    if not len(lengths):
        return []
    random = generator(seed, "shuffle", epoch)
    batches = len(cuts(np.sort(lengths), tokens))
    order = np.lexsort((random.random(len(lengths)), -lengths))
    to = np.concatenate([random.permutation(batches) for _ in range(0, len(lengths), batches)])[: len(lengths)]
    return np.split(order[np.argsort(to, kind="stable")], np.cumsum(np.bincount(to))[:-1])


def rows_by_length(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Return the numbers of all texts once, in batches of similar length, the shortest first, for scoring."""
    order = np.argsort(lengths, kind="stable")
    return [order[start:end] for start, end in cuts(lengths[order], tokens)]


def cuts(lengths: np.ndarray, tokens: int) -> list[tuple[int, int]]:
    """Cut ascending lengths into runs whose padded size, count times longest, fits the budget; a run has at least one."""
    found, start = [], 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end + 1 - start) * lengths[end] > tokens:
            found.append((start, end))
            start = end
    return found


def make_batch(data: EncodedPairs, rows: np.ndarray) -> Batch:
    """Make a padded batch of these pairs (steps 2, 3, 4 and 6)."""
    marks = data.marks
    source, target_in, target_out = _framed(data, rows)
    source_BM, source_lengths_B = pad_rows(*source, marks.pad)
    target_in_BL, target_lengths_B = pad_rows(*target_in, marks.pad)
    target_out_BL, _ = pad_rows(*target_out, marks.pad)
    return Batch(
        source_BM, source_lengths_B, target_in_BL, target_out_BL, target_lengths_B, int(target_lengths_B.sum()), marks.pad
    )


def pack_batch(data: EncodedPairs, rows: np.ndarray) -> PackedBatch:
    """Make a packed batch of these pairs (steps 2, 3 and 6); filler has a source to attend to, and no target."""
    pad = data.marks.pad
    (source, source_lengths), (target_in, target_lengths), (target_out, _) = _framed(data, rows)
    pieces = max(count_fillers(source_lengths), count_fillers(target_lengths))
    sources, targets = Packing.filled(source_lengths, pieces), Packing.filled(target_lengths, pieces)
    source_BM = fill_up(source, sources.tokens, pad)[None]
    target_in_BL, target_out_BL = (fill_up(part, targets.tokens, pad)[None] for part in (target_in, target_out))
    return PackedBatch(source_BM, sources, target_in_BL, target_out_BL, targets, len(target_out), pad)


def _framed(data: EncodedPairs, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return sources, target inputs and target outputs of these pairs with their marks (steps 2 and 3), each end to end."""
    marks, target = data.marks, data.target.take(rows)
    return [
        frame(*data.source.take(rows), marks.before_source, marks.after_source),
        frame(*target, (marks.start, *marks.before_target), marks.after_target[:-1]),
        frame(*target, marks.before_target, marks.after_target),
    ]


def frame(
    flat: np.ndarray, lengths: np.ndarray, before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Put these ids before and after each of several sequences laid end to end; return them and their new lengths."""
    longer, count = lengths + len(before) + len(after), len(lengths)
    made = np.empty(int(longer.sum()), np.int64)
    ends = np.cumsum(longer)
    starts = ends - longer
    for n, mark in enumerate(before):
        made[starts + n] = mark
    for n, mark in enumerate(after):
        made[ends - len(after) + n] = mark
    made[np.arange(len(flat)) + np.repeat(np.arange(count) * (len(before) + len(after)) + len(before), lengths)] = flat
    return made, longer


def pad_rows(flat: np.ndarray, lengths: np.ndarray, pad: int = PAD) -> tuple[Tensor, Tensor]:
    """Pad sequences laid end to end with `pad` to the longest of them (step 4); return ids_BL and lengths_B."""
    made = np.full((len(lengths), lengths.max()), pad, np.int64)
    made[np.arange(made.shape[1]) < lengths[:, None]] = flat
    return torch.from_numpy(made), torch.from_numpy(lengths)


def pad(sequences: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Pad a list of sequences (step 4); return ids_BL and lengths_B."""
    return pad_rows(np.concatenate(sequences), np.array([len(s) for s in sequences]))


@dataclass(frozen=True)
class EncodedExchanges:
    contexts: Ragged  # marks included
    replies: Ragged
    numbers: np.ndarray  # the same for the same reply

    def __len__(self) -> int:
        return len(self.numbers)

    def digest(self) -> str:
        return digest(self.contexts, self.replies)


@dataclass(frozen=True)
class ExchangeBatch:
    contexts_BL: Tensor
    context_lengths_B: Tensor
    replies_BL: Tensor
    reply_lengths_B: Tensor
    numbers_B: Tensor  # who have the same reply have the same number, and are no counter-examples to each other
    tokens: int  # what the loss is counted in: here, exchanges

    to = to_device


@dataclass(frozen=True)
class ExchangeBatches:
    """Source of batches of context-reply pairs for the loader."""

    data: EncodedExchanges
    tokens: int  # of a batch's contexts, padding counted
    seed: int
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        return plan_by_length(self.data.contexts.lengths, self.tokens, self.seed, epoch)

    def count(self, rows: np.ndarray) -> int:
        return len(rows)

    def batch(self, rows: np.ndarray, epoch: int) -> ExchangeBatch:
        contexts, replies = pad_rows(*self.data.contexts.take(rows)), pad_rows(*self.data.replies.take(rows))
        return ExchangeBatch(*contexts, *replies, torch.from_numpy(self.data.numbers[rows]), len(rows))

    def in_order(self) -> list[ExchangeBatch]:
        """Return every exchange once, for scoring."""
        return [self.batch(rows, 0) for rows in rows_by_length(self.data.contexts.lengths, self.tokens)]
