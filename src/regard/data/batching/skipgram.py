"""Text for word2vec, in blocks: words that are asked in turn, those around them, and words drawn at random to tell them from.

    subsampling   a word that makes up the share f of the text is kept with chance sqrt(t/f) + t/f (Mikolov et al. 2013, 2.3;
                  in the form of their program)
    window        of each word, drawn from 1 to the greatest, and cut where its sentence ends
    negatives     drawn from counts to the power 0.75; the words of a block share theirs (Ji et al. 2016), which turns the work
                  into products of matrices

The blocks of a stretch of text are shuffled, so that a batch holds words from everywhere: one that the same page repeats would
otherwise be stepped on many times at once. Every draw derives from (seed, epoch, stretch), and every stretch has a fixed number
of batches, so a step's number is all that is needed to go on from it.

Dims: N blocks, T words of a block, M words of a block with those around it, K negatives.

Running text as the numbers of its words: what word vectors are learned from.

Words are numbered as they stand in the vocabulary, the most frequent first. What the vocabulary does not have is left out before
anything else, so that the words around a gap become neighbours, as in word2vec. Where a line ends (in `spaced` text) or a
document does, a sentence ends, and no window reaches beyond it.
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

STRETCH = 2**20  # words of text that are prepared together
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
