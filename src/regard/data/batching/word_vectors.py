"""Batches for learning word vectors: text as word numbers, blocks for word2vec, co-occurrence counts for GloVe.

`WordText`: words are numbered as in the vocabulary, the most frequent first. What the vocabulary does not have is left out before
anything else, so that the words around a gap become neighbours, as in word2vec. The end of a line (in `spaced` text) or of a
document ends a sentence, and no window reaches beyond it.

`BlockSource`, for word2vec:

    subsampling   a word with the share f of the text is kept with probability sqrt(t/f) + t/f (Mikolov et al. 2013, 2.3;
                  in the form of their program)
    window        drawn for each word from 1 to the maximum, and cut at the ends of its sentence
    negatives     drawn from counts to the power 0.75; the words of a block share theirs (Ji et al. 2016), which turns the work
                  into matrix products

The blocks of a stretch of text are shuffled, so that a batch holds words from many places: a word that one page repeats would
otherwise be updated many times at once. Every draw derives from (seed, epoch, stretch), and every stretch has a fixed number of
batches, so a step's number is all that is needed to resume.

`cooccurrences` and `EntrySource`, for GloVe (Pennington et al. 2014, section 3): X_ij is how often word j stands in the window of
word i. A neighbour d words away counts 1/d (section 4.2), unless all count alike; symmetric windows reach both ways, others only
back. Only entries that are not zero are stored.

Dims: N blocks, T words of a block, M words of a block with those around it, K negatives, E non-zero entries.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.rng import generator
from regard.data.batching.token_cache import Tokens
from regard.text.tokenizer import LINE_END, Tokenizer, whole_words

STRETCH = 2**20  # words of text that are prepared, or counted, together
PLACES = 64  # of the table of negatives, for each word of the vocabulary
LEAST_PLACES = 2**20


class Blocks(NamedTuple):
    around_NM: Tensor  # numbers of words; those of the block itself stand in the middle
    left_NT: Tensor  # how many words before it each word's window reaches
    right_NT: Tensor  # how many after it
    negatives_NK: Tensor


class BlockSource:
    """Batches of blocks by the number of their step."""

    def __init__(
        self,
        text: WordText,
        *,
        window: int,
        subsample: float,
        power: float,
        block: int,
        shared: int,
        batch: int,
        seed: int,
        part: int | None = None,
    ) -> None:
        """`block`: words of one; `shared`: its negatives; `part`: words of a batch that are worked on together, all if None."""
        self.text, self.window, self.block, self.shared, self.seed = text, window, block, shared, seed
        self.keep = kept_share(text.counts, subsample)
        self.table = drawing_table(text.counts, power)
        self.part = max(1, (part or batch) // block)  # blocks that are worked on together
        self.edges = np.append(np.arange(0, len(text.ids), STRETCH), len(text.ids))
        expected = np.add.reduceat(self.keep[text.ids], self.edges[:-1])
        self.batches = np.maximum(1, np.rint(expected / batch).astype(int))  # of each stretch
        self._ahead: dict[int, Future[Blocks]] = {}
        self._worker = ThreadPoolExecutor(1)

    @property
    def per_epoch(self) -> int:
        return int(self.batches.sum())

    def count(self, step: int) -> int:
        """Words of the text that the steps before this one have been through, all epochs counted."""
        epoch, stretch, batch = self._place(step)
        begin, end = self.edges[stretch], self.edges[stretch + 1]
        return epoch * len(self.text.ids) + int(begin + (end - begin) * batch // self.batches[stretch])

    def parts(self, step: int) -> list[Blocks]:
        """What a step is taken on, in parts that can be worked on side by side."""
        epoch, stretch, batch = self._place(step)
        blocks = self._stretch(epoch * len(self.batches) + stretch)
        cuts = np.linspace(0, len(blocks.around_NM), self.batches[stretch] + 1).astype(int)
        begin, end = cuts[batch], cuts[batch + 1]
        edges = np.linspace(begin, end, 1 + max(1, round((end - begin) / self.part))).astype(int)
        return [Blocks(*(each[a:b] for each in blocks)) for a, b in pairwise(edges) if b > a]

    def _place(self, step: int) -> tuple[int, int, int]:
        """Epoch, stretch and number of the batch in it."""
        epoch, batch = divmod(step, self.per_epoch)
        ends = np.cumsum(self.batches)
        stretch = int(np.searchsorted(ends, batch, side="right"))
        return epoch, stretch, int(batch - (ends[stretch - 1] if stretch else 0))

    def _stretch(self, number: int) -> Blocks:
        """Prepared while the one before was learned from."""
        if number not in self._ahead:
            self._ahead = {number: self._worker.submit(self._prepared, number)}
        if number + 1 not in self._ahead:
            self._ahead = {n: self._ahead[n] for n in (number,)} | {number + 1: self._worker.submit(self._prepared, number + 1)}
        return self._ahead[number].result()

    def _prepared(self, number: int) -> Blocks:
        epoch, stretch = divmod(number, len(self.batches))
        chance = generator(self.seed, "words", epoch, stretch)
        begin, end = self.edges[stretch], self.edges[stretch + 1]
        ids = self.text.ids[begin:end]
        kept = chance.random(len(ids), np.float32) < self.keep[ids]
        starts = self.text.starts[np.searchsorted(self.text.starts, begin) : np.searchsorted(self.text.starts, end)] - begin
        before, after = room(kept, starts)
        return self._blocks(ids[kept], before, after, chance)

    def _blocks(self, ids: np.ndarray, before: np.ndarray, after: np.ndarray, chance: np.random.Generator) -> Blocks:
        """Shuffled; the last one is filled up with words that look at nothing."""
        window, block, count = self.window, self.block, -(-len(ids) // self.block)
        wide = np.zeros(count * block + 2 * window, np.int64)
        wide[window : window + len(ids)] = ids
        drawn = chance.integers(1, window + 1, len(ids), np.int16)
        reach = np.zeros((2, count * block), np.int64)
        reach[0, : len(ids)], reach[1, : len(ids)] = np.minimum(drawn, before), np.minimum(drawn, after)
        order = chance.permutation(count)
        around_NM = np.lib.stride_tricks.sliding_window_view(wide, block + 2 * window)[::block][order]
        left_NT, right_NT = reach.reshape(2, count, block)[:, order]
        negatives_NK = self.table[chance.integers(0, len(self.table), (count, self.shared))]
        return Blocks(*(torch.from_numpy(each) for each in (around_NM, left_NT, right_NT, negatives_NK)))


def kept_share(counts: np.ndarray, subsample: float) -> np.ndarray:
    """The chance of each word to be kept; all of 1 where nothing is to be left out, 0."""
    if not subsample:
        return np.ones(len(counts), np.float32)
    share = np.maximum(counts, 1) / counts.sum() / subsample
    return np.minimum(1.0, np.sqrt(1 / share) + 1 / share).astype(np.float32)


def drawing_table(counts: np.ndarray, power: float) -> np.ndarray:
    """Each word in as many places as is its share of counts to the power, in one at least: a place drawn is a word drawn."""
    shares = np.maximum(counts, 1).astype(np.float64) ** power
    places = np.maximum(1, np.rint(shares / shares.sum() * max(LEAST_PLACES, PLACES * len(counts)))).astype(np.int64)
    return np.repeat(np.arange(len(counts)), places)


def room(kept: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each word that is kept, how many others of its sentence are before it and after it."""
    begins = np.zeros(len(kept), np.int32)
    begins[starts[starts > 0]] = 1
    sentence = np.cumsum(begins, dtype=np.int32)[kept]
    at = np.arange(len(sentence), dtype=np.int32)
    new = np.concatenate([[True], sentence[1:] != sentence[:-1]]) if len(at) else np.zeros(0, bool)
    edges = np.append(at[new], len(at)).astype(np.int32)
    number = np.cumsum(new, dtype=np.int32) - 1
    return at - edges[number], edges[number + 1] - 1 - at


NO_WORD = -1


class WordText(NamedTuple):
    words: tuple[str, ...]
    counts: np.ndarray  # of each in the text
    ids: np.ndarray  # int32, of every word that is known
    starts: np.ndarray  # int64: where in `ids` each sentence begins

    @property
    def amount(self) -> str:
        return f"{len(self.ids):,} words in {len(self.starts):,} sentence{'s' if len(self.starts) > 1 else ''}"


def words_of(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Every word once, in the order of the vocabulary."""
    return tuple(dict.fromkeys(word for word in whole_words(tokenizer) if word is not None))


def word_text(tokens: Tokens, tokenizer: Tokenizer) -> WordText:
    """These tokens, read as words."""
    words = words_of(tokenizer)
    number = {word: n for n, word in enumerate(words)}
    number_of = np.array([NO_WORD if word is None else number[word] for word in whole_words(tokenizer)], np.int32)
    ids = np.asarray(tokens.ids)
    numbers = number_of[ids]
    known = numbers >= 0
    ends = np.zeros(len(ids), bool)
    ends[np.asarray(tokens.starts)] = True
    if (line_end := tokenizer.raw.token_to_id(LINE_END)) is not None:
        ends |= ids == line_end
    sentence = np.cumsum(ends, dtype=np.int64)[known]
    if len(sentence) < 2:
        raise UserError(
            f"the text has {len(sentence)} words that are in the vocabulary, too few to learn from; give more text, or lower "
            "text.minimum_count."
        )
    starts = np.flatnonzero(np.concatenate([[True], sentence[1:] != sentence[:-1]]))
    kept = numbers[known]
    return WordText(words, np.bincount(kept, minlength=len(words)), kept, starts)


class Counts(NamedTuple):
    """Entries by rows, then columns."""

    rows_E: np.ndarray
    columns_E: np.ndarray
    counts_E: np.ndarray  # float32


class Entries(NamedTuple):
    rows_E: Tensor
    columns_E: Tensor
    counts_E: Tensor


def cooccurrences(text: WordText, window: int, *, symmetric: bool = True, by_distance: bool = True) -> Counts:
    size, sentence = len(text.words), np.zeros(len(text.ids), np.int32)
    sentence[text.starts[text.starts > 0]] = 1
    sentence = np.cumsum(sentence, dtype=np.int32)
    keys, counts = np.zeros(0, np.int64), np.zeros(0)
    for begin in range(0, len(text.ids), STRETCH):
        stretch = slice(begin, begin + STRETCH + window)
        found = [
            (pairs, number / distance if by_distance else number.astype(float))
            for distance in range(1, window + 1)
            for pairs, number in [_at(text.ids[stretch], sentence[stretch], distance, size)]
        ]
        keys, counts = _summed([keys, *(pairs for pairs, _ in found)], [counts, *(number for _, number in found)])
    if symmetric:
        mirrored = keys % size * size + keys // size
        keys, counts = _summed([keys, mirrored], [counts, counts])
    if not len(keys):
        raise UserError("no word of the text has another in its window; give text with more than one word a sentence.")
    return Counts(keys // size, keys % size, counts.astype(np.float32))


def _at(ids: np.ndarray, sentence: np.ndarray, distance: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every word of a stretch, with the one so far before it in its sentence: each pair once, and how often."""
    later, earlier = ids[distance : distance + STRETCH].astype(np.int64), ids[:-distance][:STRETCH]
    together = (sentence[distance:] == sentence[:-distance])[:STRETCH]
    return np.unique((later * size + earlier)[together], return_counts=True)


def _summed(keys: list[np.ndarray], counts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Equal keys once, sorted, their counts added."""
    found, place = np.unique(np.concatenate(keys), return_inverse=True)
    return found, np.bincount(place, np.concatenate(counts), len(found))


class EntrySource:
    """Batches of entries, in another order every epoch, by the number of their step."""

    def __init__(self, counts: Counts, *, batch: int, seed: int, part: int | None = None) -> None:
        self.counts, self.batch, self.seed, self.part = counts, batch, seed, part or batch
        self._order = (-1, np.zeros(0, np.int64))

    @property
    def per_epoch(self) -> int:
        return -(-len(self.counts.counts_E) // self.batch)

    def count(self, step: int) -> int:
        """Entries that the steps before this one have been through."""
        epoch, batch = divmod(step, self.per_epoch)
        return epoch * len(self.counts.counts_E) + batch * self.batch

    def parts(self, step: int) -> list[Entries]:
        epoch, batch = divmod(step, self.per_epoch)
        if self._order[0] != epoch:
            self._order = epoch, generator(self.seed, "entries", epoch).permutation(len(self.counts.counts_E))
        rows = self._order[1][batch * self.batch : (batch + 1) * self.batch]
        pieces = [rows[begin : begin + self.part] for begin in range(0, len(rows), self.part)]
        return [Entries(*(torch.from_numpy(each[piece]) for each in self.counts)) for piece in pieces]
