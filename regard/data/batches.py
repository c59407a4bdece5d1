"""Pairs of sentences become batches of numbers, in six steps (lecture row R4):

1. sample pairs                                     `plan`: shuffled, of similar length, up to a token budget
2. append <eos> to the source                       `make_batch`
3. target input = <sos> + target,
   target output = target + <eos>                   `make_batch`
4. pad to the longest of the batch                  `pad`
5. encode words as numbers, unknown ones as <unk>   `encode_pairs`, once, before the first batch
6. keep the lengths                                 `Batch`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from regard.counted import generator
from regard.data.pair import Pair
from regard.text.vocabulary import EOS, PAD, SOS

Encode = Callable[[Sequence[str]], list[list[int]]]


class Ragged:
    """Many number sequences in one flat array: millions of sentences cost no Python objects."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self.lengths = np.fromiter((len(s) for s in sequences), np.int64, len(sequences))
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.flat = np.fromiter((n for s in sequences for n in s), np.int32, int(self.offsets[-1]))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, n: int) -> np.ndarray:
        return self.flat[self.offsets[n] : self.offsets[n + 1]]


@dataclass(frozen=True)
class EncodedPairs:
    source: Ragged
    target: Ragged
    dropped: int = 0  # pairs left out because a side was too long

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Batch:
    source_BM: Tensor
    source_lengths_B: Tensor
    target_in_BL: Tensor
    target_out_BL: Tensor
    target_lengths_B: Tensor
    tokens: int  # target words to predict, <eos> included; known to the host

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "tokens"}
        return replace(self, **{name: t.pin_memory().to(device, non_blocking=True) for name, t in tensors.items()})


def encode_pairs(pairs: Sequence[Pair], source: Encode, target: Encode, maximum: int | None = None) -> EncodedPairs:
    """Step 5. With `maximum`, pairs with a longer side (its <eos> counted) are dropped and counted."""
    sources = source([pair.source for pair in pairs])
    targets = target([pair.target for pair in pairs])
    kept = [n for n in range(len(pairs)) if maximum is None or max(len(sources[n]), len(targets[n])) < maximum]
    return EncodedPairs(Ragged([sources[n] for n in kept]), Ragged([targets[n] for n in kept]), len(pairs) - len(kept))


def plan(data: EncodedPairs, tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Step 1: the batches of an epoch as arrays of pair numbers, each at most `tokens` wide on its longer side.

    Sentences of the same length are shuffled among themselves and batches among each other. Where the cuts fall depends on
    the lengths alone, so every epoch has the same number of batches and a step number alone says where a run stands.
    """
    random = generator(seed, "shuffle", epoch)
    longest = np.maximum(data.source.lengths, data.target.lengths) + 1
    order = np.lexsort((random.random(len(data)), data.source.lengths, longest))
    batches = [order[start:end] for start, end in cuts(longest[order], tokens)]
    return [batches[n] for n in random.permutation(len(batches))]


def cuts(lengths: np.ndarray, tokens: int) -> list[tuple[int, int]]:
    """Cut ascending lengths into runs whose padded size, count times longest, fits the budget; a run has at least one."""
    found, start = [], 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end + 1 - start) * lengths[end] > tokens:
            found.append((start, end))
            start = end
    return found


def make_batch(data: EncodedPairs, rows: np.ndarray) -> Batch:
    """Steps 2, 3, 4 and 6 for these pairs."""
    sources = [np.append(data.source[n], EOS) for n in rows]
    inputs = [np.insert(data.target[n], 0, SOS) for n in rows]
    outputs = [np.append(data.target[n], EOS) for n in rows]
    source_BM, source_lengths_B = pad(sources)
    target_in_BL, target_lengths_B = pad(inputs)
    target_out_BL, _ = pad(outputs)
    return Batch(source_BM, source_lengths_B, target_in_BL, target_out_BL, target_lengths_B, sum(map(len, outputs)))


def pad(sequences: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Step 4: one rectangle as wide as the longest, filled up with <pad>, and the lengths."""
    lengths = [len(s) for s in sequences]
    padded = np.full((len(sequences), max(lengths)), PAD, np.int64)
    for row, sequence in enumerate(sequences):
        padded[row, : len(sequence)] = sequence
    return torch.from_numpy(padded), torch.tensor(lengths)
