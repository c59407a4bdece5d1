"""Running text as passages with words masked, for a model that reads both ways (Devlin et al. 2019, sections 3.1 and A.2).

    one text     [CLS] text [SEP]
    two texts    [CLS] A [SEP] B [SEP]     B follows A in its document or, half of the time, comes from another one

A passage lies in one document. A document that fits is one passage; a longer one is cut into full passages with a shorter one at
each end, and every epoch cuts it elsewhere, by counted randomness. All of it is read in every epoch, whose passages are as many
as those of any other. The array may be a mapped file of any size: only what a batch needs is read. `WholeTexts` are texts that
are not cut, such as those of a classifier. Rows are numbered on through the epochs, so that a row's number alone says which
tokens it has and what is masked in it.

Of 15% of the words, 80% become <mask>, 10% another word, and 10% stay. The choice derives from (seed, epoch). With `continues`,
whole words are masked, all their tokens together: in a random order, those that still fit into the share.

Differs from the paper in: texts are cut between tokens, not between sentences, and none is made shorter on purpose. Where a text
is a single document, the B that does not follow comes from elsewhere in it; it may run from one document on into the next.

Dims: N passages or texts, T tokens of all, M masked ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED, Packing, Words, fill_up, round_up, to_device
from regard.core.rng import generator, uniform
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.pairs import Ragged, cuts, pad_rows, plan_by_length


class Laid(NamedTuple):
    """Passages one after the other, marks included."""

    ids_T: np.ndarray
    lengths_N: np.ndarray
    places_T: np.ndarray  # of each token in its passage
    segments_T: np.ndarray | None  # 0 up to the end of A, then 1; None where passages are one text
    strange_N: np.ndarray | None  # 0 where B follows A, 1 where it comes from elsewhere


class Places(NamedTuple):
    """The places of passages and of their documents in the text."""

    begins_N: np.ndarray
    ends_N: np.ndarray
    document_begins_N: np.ndarray
    document_ends_N: np.ndarray


@dataclass(frozen=True, eq=False)
class Passages:
    ids: np.ndarray
    starts: np.ndarray  # of the documents, ascending; the first is 0
    window: int  # tokens of a passage, marks included
    marks: SpecialTokens
    seed: int
    pairs: bool = False

    def __post_init__(self) -> None:
        if self.room < 4:
            raise UserError(f"data.window={self.window} leaves {self.room} tokens beside the marks; set it to 8 or more.")
        if self.pairs and len(self.ids) < 3 * self.room:
            raise UserError(
                f"a text of {len(self.ids):,} tokens is too short to find sentences that do not follow each other, {self.room:,} "
                "tokens at a time; give more text, lower data.window, or set objective.next_sentence=false."
            )

    @property
    def around(self) -> int:
        """Return the number of special tokens of a passage."""
        return 3 if self.pairs else 2

    @property
    def room(self) -> int:
        return self.window - self.around

    @property
    def _least(self) -> int:
        """Return the number of tokens of the shortest passage."""
        return 2 if self.pairs else 1

    def __len__(self) -> int:
        """Return the number of passages of an epoch."""
        return int(self._firsts[-1])

    @cached_property
    def _documents(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the starts and lengths of the documents that are long enough."""
        lengths = np.diff(np.append(self.starts, len(self.ids)))
        kept = lengths >= self._least
        return np.asarray(self.starts)[kept], lengths[kept]

    @cached_property
    def _pieces(self) -> np.ndarray:
        """Return the passages of each document; half a passage to one and a half stays free, to cut elsewhere every epoch."""
        _, lengths = self._documents
        return np.where(lengths <= self.room, 1, (2 * lengths + self.room) // (2 * self.room) + 1)

    @cached_property
    def _firsts(self) -> np.ndarray:
        """Return the number of each document's first passage, and the number of all passages."""
        return np.concatenate([[0], np.cumsum(self._pieces)])

    @cached_property
    def _slack(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the tokens of each document that stay free, and the least and the most of them before its first passage."""
        empty = np.where(self._pieces > 1, self._pieces * self.room - self._documents[1], 0)
        most = self.room - self._least
        return empty, np.maximum(0, empty - most), np.minimum(empty, most)

    def _places(self, rows: np.ndarray) -> Places:
        epochs, numbers = np.divmod(rows, len(self))
        documents = np.searchsorted(self._firsts, numbers, "right") - 1
        (begins, lengths), (_, least, most) = self._documents, self._slack
        drawn = uniform(self.seed, "cut", epochs * len(begins) + documents)
        shift = least[documents] + (drawn * (most - least + 1)[documents]).astype(np.int64)
        before = (numbers - self._firsts[documents]) * self.room - shift
        first, length = begins[documents], lengths[documents]
        return Places(first + np.maximum(0, before), first + np.minimum(length, before + self.room), first, first + length)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return the length of every passage without special tokens."""
        places = self._places(rows)
        return places.ends_N - places.begins_N

    @cached_property
    def _longest(self) -> np.ndarray:
        """Return an upper bound of the length of each passage, over all epochs."""
        found = np.repeat(np.where(self._pieces > 1, self.room, self._documents[1]), self._pieces)
        cut, (empty, least, most) = self._pieces > 1, self._slack
        found[self._firsts[:-1][cut]] = (self.room - least)[cut]
        found[self._firsts[1:][cut] - 1] = (self.room - empty + most)[cut]
        return found

    def plan(self, epoch: int, tokens: int) -> list[np.ndarray]:
        """Plan batches of at most `tokens` tokens and of similar length; as many in every epoch, since `_longest` decides."""
        random, rows = generator(self.seed, "shuffle", epoch), epoch * len(self) + np.arange(len(self))
        order = np.lexsort((random.random(len(self)), self.lengths(rows), self._longest))
        batches = [rows[order[start:end]] for start, end in cuts(self._longest[order] + self.around, tokens)]
        return [batches[n] for n in random.permutation(len(batches))]

    def take(self, rows: np.ndarray) -> Laid:
        places = self._places(rows)
        texts_N = places.ends_N - places.begins_N
        lengths_N = texts_N + self.around
        firsts_N = np.cumsum(lengths_N) - lengths_N
        place_T = np.arange(lengths_N.sum()) - np.repeat(firsts_N, lengths_N)
        if not self.pairs:
            ids_T = self._read(np.repeat(places.begins_N, lengths_N) + place_T - 1)
            ids_T[firsts_N], ids_T[firsts_N + lengths_N - 1] = self.marks.start, self.marks.end
            return Laid(ids_T, lengths_N, place_T, None, None)
        of_A_N = 1 + (uniform(self.seed, "split", rows) * (texts_N - 1)).astype(np.int64)
        strange_N = uniform(self.seed, "follows", rows) < 0.5
        begins_B_N = np.where(strange_N, self._elsewhere(rows, places, texts_N - of_A_N), places.begins_N + of_A_N)
        second_T = place_T > np.repeat(of_A_N + 1, lengths_N)
        from_A, from_B = np.repeat(places.begins_N - 1, lengths_N), np.repeat(begins_B_N - of_A_N - 2, lengths_N)
        ids_T = self._read(np.where(second_T, from_B, from_A) + place_T)
        ids_T[firsts_N], ids_T[firsts_N + of_A_N + 1] = self.marks.start, self.marks.between
        ids_T[firsts_N + lengths_N - 1] = self.marks.end
        return Laid(ids_T, lengths_N, place_T, second_T.astype(np.int64), strange_N.astype(np.int64))

    def _read(self, places_T: np.ndarray) -> np.ndarray:
        """Return the tokens at these places; places outside of the text, which special tokens will replace, are clipped."""
        return self.ids[np.clip(places_T, 0, len(self.ids) - 1)].astype(np.int64)

    def _elsewhere(self, rows: np.ndarray, places: Places, lengths_N: np.ndarray) -> np.ndarray:
        """Choose starts of texts of these lengths outside of a passage's document, or if need be outside of the passage."""
        begins, ends = places.document_begins_N, places.document_ends_N
        alone = self._choices(begins, ends, lengths_N).sum(0) == 0
        begins, ends = np.where(alone, places.begins_N, begins), np.where(alone, places.ends_N, ends)
        before, after = self._choices(begins, ends, lengths_N)
        chosen = (uniform(self.seed, "elsewhere", rows) * (before + after)).astype(np.int64)
        return np.where(chosen < before, chosen, ends + chosen - before)

    def _choices(self, begins: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return how many texts of these lengths there are before and after the excluded part."""
        return np.maximum(0, np.stack([begins - lengths + 1, len(self.ids) - lengths - ends + 1]))


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

    to = to_device


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
        places_T = np.arange(len(ids_T))
        if not self.packed:
            places_T = laid.places_T + np.repeat(np.arange(len(rows)) * ids_BL.shape[1], laid.lengths_N)
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
