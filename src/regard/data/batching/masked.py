"""Batches for masked language modelling (Devlin et al. 2019, section 3.1).

Of 15% of the words, 80% become <mask>, 10% another word, and 10% stay. The choice derives from (seed, epoch).

With `continues`, whole words are masked, all their tokens together: in a random order, those that still fit into the share.

`WholeTexts` are texts that are not cut, such as those of a classifier. They have the interface of `Passages`: rows are numbered
through all epochs, so that a row's number alone says what is masked in it.

Dims: N passages or texts, T tokens of all, M masked ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import IGNORED, Packing, Words, fill_up, round_up, to_device
from regard.core.rng import uniform
from regard.data.batching.pairs import Ragged, pad_rows, plan_by_length
from regard.data.batching.passages import Laid, Passages

MASKED, REPLACED = 0.8, 0.1
NEVER = 2.0  # above all draws


@dataclass(frozen=True)
class MaskedBatch:
    ids_BL: Tensor
    words: Words
    masked_M: Tensor  # places in the flattened ids, ascending
    targets_M: Tensor  # what stood there
    wanted_N: Tensor  # how many of each passage were to be masked
    tokens: int  # all of those together
    chance_M: Tensor  # a number in [0, 1) for what is drawn in place of each masked word
    segments_BL: Tensor | None = None  # of passages that are pairs,
    strange_N: Tensor | None = None  # and whether their second texts come from elsewhere
    judged_T: Tensor | None = None  # places of all words in the flattened ids, where that is asked for

    def to(self, device: torch.device) -> MaskedBatch:
        return to_device(self, device)


@dataclass(frozen=True, eq=False)
class Masking:
    seed: int
    mask: int  # the number of <mask>
    words: Sequence[int] | np.ndarray  # numbers that are words: only these are taken out, and only these replace others
    share: float = 0.15
    masked: float = MASKED  # of those taken out,
    replaced: float = REPLACED
    continues: np.ndarray | None = None  # whether each number goes on with the word before it

    def wanted(self, lengths_N: np.ndarray) -> np.ndarray:
        """Return how many tokens of each passage to mask: the share, but at least one."""
        return np.maximum(1, np.round(self.share * lengths_N)).astype(np.int64)

    def is_word(self, ids_T: np.ndarray) -> np.ndarray:
        return self._known[np.minimum(ids_T, len(self._known) - 1)]

    @cached_property
    def _known(self) -> np.ndarray:
        found = np.zeros(max(self.words) + 2, bool)
        found[np.asarray(self.words)] = True
        return found

    def __call__(self, laid: Laid, wanted_N: np.ndarray, numbers_T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids with masked tokens replaced, and the masked positions. `numbers_T`: positions over all epochs."""
        keys_T = np.where(self.is_word(laid.ids_T), uniform(self.seed, "mask", numbers_T), NEVER)
        chosen = self._tokens if self.continues is None else self._whole_words
        where_M = np.sort(chosen(laid, wanted_N, keys_T))
        numbers_M = numbers_T[where_M]
        fate_M, other_M = uniform(self.seed, "fate", numbers_M), uniform(self.seed, "other", numbers_M)
        other_M = np.asarray(self.words)[(other_M * len(self.words)).astype(np.int64)]
        ids_T = laid.ids_T.copy()
        kept_or_other_M = np.where(fate_M < self.masked + self.replaced, other_M, ids_T[where_M])
        ids_T[where_M] = np.where(fate_M < self.masked, self.mask, kept_or_other_M)
        return ids_T, where_M

    def _tokens(self, laid: Laid, wanted_N: np.ndarray, keys_T: np.ndarray) -> np.ndarray:
        """Choose the positions of each passage that have the lowest random keys."""
        passage_T = np.repeat(np.arange(len(wanted_N)), laid.lengths_N)
        order_T = np.lexsort((keys_T, passage_T))  # passages stay where they are
        taken_T = (laid.places_T < np.repeat(wanted_N, laid.lengths_N)) & (keys_T[order_T] < NEVER)
        return order_T[taken_T]

    def _whole_words(self, laid: Laid, wanted_N: np.ndarray, keys_T: np.ndarray) -> np.ndarray:
        assert self.continues is not None
        after_word_T = np.append(False, keys_T[:-1] < NEVER)  # a passage begins with a mark
        begins_T = (keys_T < NEVER) & ~(after_word_T & self.continues[laid.ids_T])
        starts_W = np.flatnonzero(begins_T)
        words_T = np.cumsum(begins_T) - 1
        sizes_W = np.bincount(words_T[keys_T < NEVER], minlength=len(starts_W))
        passage_W = np.repeat(np.arange(len(wanted_N)), laid.lengths_N)[starts_W]
        left, found = wanted_N.tolist(), []
        for word in np.lexsort((keys_T[starts_W], passage_W)):
            passage, size = passage_W[word], sizes_W[word]
            if size <= left[passage]:
                left[passage] -= size
                found.append(np.arange(starts_W[word], starts_W[word] + size))
        return np.concatenate(found) if found else np.zeros(0, np.int64)


@dataclass(frozen=True)
class MaskedPassages:
    """Source of batches of masked passages for the loader."""

    passages: Passages | WholeTexts
    tokens: int  # of a batch, padding counted
    masking: Masking
    packed: bool = False
    judged: bool = False  # say where the words are
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        return self.passages.plan(epoch, self.tokens)

    def count(self, rows: np.ndarray) -> int:
        return int(self.masking.wanted(self.passages.lengths(rows)).sum())

    def batch(self, rows: np.ndarray, epoch: int) -> MaskedBatch:
        laid = self.passages.take(rows)
        wanted_N = self.masking.wanted(laid.lengths_N - self.passages.around)
        numbers_T = np.repeat(rows, laid.lengths_N) * self.passages.window + laid.places_T
        ids_T, where_M = self.masking(laid, wanted_N, numbers_T)
        ids_BL, words = self._rows(ids_T, laid.lengths_N)
        places_T = np.arange(len(ids_T)) if self.packed else self._in_rows(laid, ids_BL.shape[1])
        judged_T = places_T[self.masking.is_word(laid.ids_T)] if self.judged else None
        texts, masked = (words.sequences, round_up(len(where_M))) if isinstance(words, Packing) else (len(rows), len(where_M))
        chance_M = uniform(self.masking.seed, "sample", numbers_T[where_M]).astype(np.float32)
        return MaskedBatch(
            ids_BL,
            words,
            fill_up(places_T[where_M], masked, ids_BL.shape[1] - 1),
            fill_up(laid.ids_T[where_M], masked, IGNORED),
            fill_up(wanted_N, texts),
            int(wanted_N.sum()),
            fill_up(chance_M, masked),
            None if laid.segments_T is None else self._rows(laid.segments_T, laid.lengths_N)[0],
            None if laid.strange_N is None else fill_up(laid.strange_N, texts, IGNORED),
            None if judged_T is None else torch.from_numpy(judged_T),
        )

    def _rows(self, flat_T: np.ndarray, lengths_N: np.ndarray) -> tuple[Tensor, Words]:
        if self.packed:
            words = Packing.filled(lengths_N)
            return fill_up(flat_T, words.tokens)[None], words
        return pad_rows(flat_T, lengths_N)

    def _in_rows(self, laid: Laid, width: int) -> np.ndarray:
        return np.repeat(np.arange(len(laid.lengths_N)) * width, laid.lengths_N) + laid.places_T

    def in_order(self) -> Iterator[MaskedBatch]:
        """Yield every passage of the first epoch, always with the same masks, for scoring."""
        return (self.batch(rows, 0) for rows in self.plan(0))


MARKS = 2  # one before each text and one behind it


@dataclass(frozen=True, eq=False)
class WholeTexts:
    ids: Ragged  # marks included
    seed: int
    around = MARKS

    @property
    def window(self) -> int:
        """Return the number of tokens of the longest text."""
        return int(self.ids.lengths.max())

    def __len__(self) -> int:
        return len(self.ids)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return the length of every text without special tokens."""
        return self.ids.lengths[rows % len(self)] - MARKS

    def plan(self, epoch: int, tokens: int) -> list[np.ndarray]:
        """Plan batches of at most `tokens` tokens and of similar length; every epoch has the same number of batches."""
        return [epoch * len(self) + rows for rows in plan_by_length(self.ids.lengths, tokens, self.seed, epoch)]

    def take(self, rows: np.ndarray) -> Laid:
        flat, lengths_N = self.ids.take(rows % len(self))
        places_T = np.arange(len(flat)) - np.repeat(np.cumsum(lengths_N) - lengths_N, lengths_N)
        return Laid(flat.astype(np.int64), lengths_N, places_T, None, None)
