"""Texts with words taken out, to be filled in again (Devlin et al. 2019, section 3.1).

Of 15% of the words, 80% become <mask>, 10% another word, and 10% stay. Drawn anew for every epoch, by counted randomness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.counted import generator
from regard.data.batches import Ragged, cuts, pad
from regard.data.packing import Packing, Words, moved

SHARE, MASKED, REPLACED = 0.15, 0.8, 0.1


@dataclass(frozen=True)
class MaskedBatch:
    ids_BL: Tensor
    words: Words
    masked_N: Tensor  # places in the flattened ids, ascending
    targets_N: Tensor  # what stood there
    tokens: int  # masked ones

    def to(self, device: torch.device) -> MaskedBatch:
        return moved(self, device)


@dataclass(frozen=True)
class MaskedTexts:
    texts: Ragged
    tokens: int  # of a batch, padding counted
    seed: int
    mask: int  # the number of <mask>
    words: range  # numbers a word may be replaced by
    packed: bool = False
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        random = generator(self.seed, "shuffle", epoch)
        order = np.lexsort((random.random(len(self.texts)), self.texts.lengths))
        batches = [order[start:end] for start, end in cuts(self.texts.lengths[order], self.tokens)]
        return [batches[n] for n in random.permutation(len(batches))]

    def count(self, rows: np.ndarray) -> int:
        return int(masked_words(self.texts.lengths[rows]).sum())

    def batch(self, rows: np.ndarray, epoch: int) -> MaskedBatch:
        texts = [self.texts[n].astype(np.int64) for n in rows]
        masked = [self._mask(text, epoch, int(n)) for text, n in zip(texts, rows)]
        lengths = np.array([len(text) for text in texts])
        words: Words
        if self.packed:
            ids_BL, words = torch.from_numpy(np.concatenate([ids for ids, _ in masked]))[None], Packing.of(lengths)
            starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        else:
            ids_BL, words = pad([ids for ids, _ in masked])
            starts = np.arange(len(rows)) * ids_BL.shape[1]
        places = np.concatenate([start + where for start, (_, where) in zip(starts, masked)])
        targets = np.concatenate([text[where] for text, (_, where) in zip(texts, masked)])
        return MaskedBatch(ids_BL, words, torch.from_numpy(places), torch.from_numpy(targets), len(targets))

    def _mask(self, text: np.ndarray, epoch: int, row: int) -> tuple[np.ndarray, np.ndarray]:
        random = generator(self.seed, "mask", epoch, row)
        where = np.sort(random.choice(len(text), int(masked_words(len(text))), replace=False))
        fate, other = random.random(len(where)), random.integers(self.words.start, self.words.stop, len(where))
        ids = text.copy()
        ids[where] = np.where(fate < MASKED, self.mask, np.where(fate < MASKED + REPLACED, other, ids[where]))
        return ids, where


def masked_words(lengths: np.ndarray | int) -> np.ndarray:
    """How many words of a text are masked: at least one, so that every text teaches something."""
    return np.maximum(1, np.round(SHARE * np.asarray(lengths))).astype(np.int64)
