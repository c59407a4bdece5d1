"""Skip-gram and CBOW with negative sampling: word vectors that distinguish neighbours of a word from words drawn at random.

Mikolov et al. 2013, Distributed representations of words and phrases, equation 4: for a word and one of its neighbours, raise

    log sigma(x . y) + k E_n [log sigma(-x . y_n)]                x of the word, y of the neighbour, y_n of drawn words

Skip-gram predicts every neighbour of a word; CBOW predicts the word from the mean of its neighbours. The gradient is written by
hand: the error of a pair, 1 - sigma or -sigma, times the other vector. Updates are sparse, so they are returned as row numbers
and what to add to these rows. Words of a block share negatives, which are weighted so that there are k for each pair.

As in the authors' program, CBOW gives each neighbour the whole error of the mean, not a part of it. Differs from it in: a batch
of words is one step, so the sum of updates of a word that is frequent in the batch is bounded, where updates one after another
would converge; a negative that happens to be the right word is not left out.

Dims: N blocks, T words of a block, M with those around, K negatives, D width, V vocabulary, R rows to step on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Bounds, check_bounds
from regard.data.batching.word_vectors import Blocks
from regard.families.word2vec import Word2Vec

MAX_STEP = 2.0  # bound on the sum of the updates of one row in a batch, each weighted by the learning rate


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Settings that skip-gram and CBOW share."""

    passes = 1  # through a batch
    window: Annotated[int, Bounds(1, 100)] = 5  # words on either side, at most; the number is drawn for each word
    negatives: Annotated[int, Bounds(1, 100)] = 5  # negatives for each pair
    power: Annotated[float, Bounds(0, 2)] = 0.75  # negatives are drawn by their counts to this power
    subsample: Annotated[float, Bounds(0, 1, below=True, zero="off", example="0.001")] = 1e-3
    """Words above this frequency are left out at random, the more frequent the more often."""

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


@dataclass(frozen=True, kw_only=True)
class SkipGramConfig(SamplingConfig):
    name: Literal["skipgram"] = "skipgram"
    block, shared = 32, 32  # words of a block, and the negatives that they share
    part = 512  # words of a batch computed together

    @property
    def products(self) -> float:
        """Dot products of a word: with each neighbour, window + 1 on average, and with the negatives of each."""
        return (self.window + 1) * (1 + self.negatives)


@dataclass(frozen=True, kw_only=True)
class CBOWConfig(SamplingConfig):
    name: Literal["cbow"] = "cbow"
    block, shared = 16, 16
    part = 1024

    @property
    def products(self) -> float:
        """Dot products of a word: half of one for each neighbour, to sum them, one with the word, one with each negative."""
        return (self.window + 1) / 2 + 1 + self.negatives


class Steps(NamedTuple):
    """Updates of rows of a table, to be multiplied by the rate; `weight_R` is the number of pairs that each one sums."""

    rows_R: Tensor
    steps_RD: Tensor
    weight_R: Tensor


class NegativeSampling:
    """Computes the steps of the parts of a batch from unchanged tables, then applies them, one table at a time."""

    def __init__(self, tables: Word2Vec, config: SkipGramConfig | CBOWConfig) -> None:
        self.tables, self.config = tables, config
        self.both = (tables.words.weight.data, tables.contexts.weight.data)
        self.tally = [torch.zeros(len(table)) for table in self.both]
        self.before, self.after = window_tables(config.window, config.block)
        self.first_T = torch.arange(config.block) * (config.window + 1)  # first row of each place in these tables
        self.shares = torch.arange(2 * config.window + 1).clamp(min=1).reciprocal()[:, None]  # 1 / number of neighbours
        self.moments: dict[str, Tensor] = {}

    def compute_steps(self, part: Blocks) -> tuple[list[Steps], list[Steps]]:
        """Return the steps of the word table and of the context table."""
        each, band_NTM = self.config.negatives / part.negatives_NK.shape[1], self.band(part)
        if self.config.name == "skipgram":
            return _skipgram(*self.both, part, band_NTM, each)
        return _cbow(*self.both, part, band_NTM, _rows(self.shares, part.left_NT + part.right_NT), each)

    def apply_steps(self, table: int, found: Sequence[Steps], rate: float) -> None:
        rows_R, weight_R = torch.cat([steps.rows_R for steps in found]), torch.cat([steps.weight_R for steps in found])
        share_R = step_scale(self.tally[table], rows_R, weight_R, MAX_STEP / rate).mul_(rate)
        for (rows, steps_RD, _), share_R1 in zip(found, share_R[:, None].split([len(steps.rows_R) for steps in found])):
            self.both[table].index_add_(0, rows, steps_RD.mul_(share_R1))  # index_add_ with alpha takes three times as long

    def loss(self, part: Blocks) -> float:
        """Return minus equation 4, averaged over the pairs of these blocks."""
        words_VD, contexts_VD = self.both
        band_NTM = self.band(part)
        if self.config.name == "skipgram":
            x_NTD, pairs_NT = _rows(words_VD, block_words(part)), band_NTM.sum(2)
            right = F.logsigmoid(x_NTD @ _rows(contexts_VD, part.around_NM).mT).mul(band_NTM).sum()
        else:
            x_NTD, pairs_NT = _means(words_VD, part, band_NTM), band_NTM.amax(2)
            right = F.logsigmoid((x_NTD * _rows(contexts_VD, block_words(part))).sum(2)).mul(pairs_NT).sum()
        wrong_NT = F.logsigmoid(-(x_NTD @ _rows(contexts_VD, part.negatives_NK).mT)).mean(2)
        total = right + self.config.negatives * (wrong_NT * pairs_NT).sum()
        return float(-total / pairs_NT.sum().clamp_min(1))

    def band(self, part: Blocks) -> Tensor:
        """Return band_NTM: 1 where a word of a block has another in its window. Looked up: four times faster than comparing."""
        return _rows(self.before, part.left_NT + self.first_T).add_(_rows(self.after, part.right_NT + self.first_T))


def window_tables(window: int, block: int) -> tuple[Tensor, Tensor]:
    """Return which words are in the window before and after each place of a block, for each size of the window: rows of M."""
    offset_TM = torch.arange(block + 2 * window) - torch.arange(block)[:, None] - window
    reach = torch.arange(window + 1)[:, None]
    near_TRM = (offset_TM[:, None].abs() <= reach) & (offset_TM[:, None] != 0)
    sides = [(near_TRM & (sign * offset_TM[:, None] > 0)).float().flatten(0, 1) for sign in (-1, 1)]
    return sides[0], sides[1]


def block_words(part: Blocks) -> Tensor:
    """Return the word numbers of the block itself, numbers_NT."""
    aside = (part.around_NM.shape[1] - part.left_NT.shape[1]) // 2
    return part.around_NM[:, aside : aside + part.left_NT.shape[1]]


def _skipgram(
    words_VD: Tensor, contexts_VD: Tensor, part: Blocks, band_NTM: Tensor, each: float
) -> tuple[list[Steps], list[Steps]]:
    asked_NT, pairs_NT1 = block_words(part), band_NTM.sum(2, keepdim=True)
    x_NTD = _rows(words_VD, asked_NT)
    y_NMD, drawn_NKD = _rows(contexts_VD, part.around_NM), _rows(contexts_VD, part.negatives_NK)
    right_NTM = torch.bmm(x_NTD, y_NMD.mT).neg_().sigmoid_().mul_(band_NTM)
    wrong_NTK = torch.bmm(x_NTD, drawn_NKD.mT).sigmoid_().mul_(-each * pairs_NT1)
    to_x_NTD = torch.baddbmm(torch.bmm(right_NTM, y_NMD), wrong_NTK, drawn_NKD)
    drawn_times_N1 = each * pairs_NT1.sum(1)
    return (
        [_steps(asked_NT, to_x_NTD, pairs_NT1 * (1 + each * drawn_NKD.shape[1]))],
        [
            _steps(part.around_NM, torch.bmm(right_NTM.mT, x_NTD), band_NTM.sum(1)),
            _steps(part.negatives_NK, torch.bmm(wrong_NTK.mT, x_NTD), drawn_times_N1.expand(part.negatives_NK.shape)),
        ],
    )


def _cbow(
    words_VD: Tensor, contexts_VD: Tensor, part: Blocks, band_NTM: Tensor, share_NT1: Tensor, each: float
) -> tuple[list[Steps], list[Steps]]:
    """Return the steps.

    The mean of the formula is kept as a sum: its factor multiplies scores and errors, which are fewer numbers.
    """
    asked_NT = block_words(part)
    sum_NTD = torch.bmm(band_NTM, _rows(words_VD, part.around_NM))
    y_NTD, drawn_NKD = _rows(contexts_VD, asked_NT), _rows(contexts_VD, part.negatives_NK)
    right_NT1 = (sum_NTD * y_NTD).sum(2, keepdim=True).mul_(share_NT1).neg_().sigmoid_()
    wrong_NTK = torch.bmm(sum_NTD, drawn_NKD.mT).mul_(share_NT1).sigmoid_().mul_(-each)
    error_NTD = y_NTD.mul_(right_NT1).baddbmm_(wrong_NTK, drawn_NKD)  # a word without neighbours has no row to change
    to_drawn_NKD = torch.bmm(wrong_NTK.mul_(share_NT1).mT, sum_NTD)
    answers, words = 1 + each * drawn_NKD.shape[1], asked_NT.shape[1]
    return (
        [_steps(part.around_NM, torch.bmm(band_NTM.mT, error_NTD), band_NTM.mul_(share_NT1).sum(1).mul_(answers))],
        [
            _steps(asked_NT, sum_NTD.mul_(right_NT1.mul_(share_NT1)), torch.ones(asked_NT.shape)),
            _steps(part.negatives_NK, to_drawn_NKD, torch.full(part.negatives_NK.shape, each * words)),
        ],
    )


def _steps(rows: Tensor, steps: Tensor, weight: Tensor) -> Steps:
    return Steps(rows.reshape(-1), steps.flatten(0, 1), weight.reshape(-1))


def _means(words_VD: Tensor, part: Blocks, band_NTM: Tensor) -> Tensor:
    """Return mean_NTD of the vectors around each word; 0 where there are none."""
    sum_NTD = torch.bmm(band_NTM, _rows(words_VD, part.around_NM))
    return sum_NTD.div_(band_NTM.sum(2, keepdim=True).clamp_min_(1))


_rows = torch.embedding  # rows of a table, by number


def step_scale(tally_V: Tensor, rows_R: Tensor, weight_R: Tensor, most: float) -> Tensor:
    """Return the factor of each step that bounds the total weight of the steps of one row by `most`; 1 where it is below."""
    tally_V.index_add_(0, rows_R, weight_R)
    together_R = tally_V.index_select(0, rows_R)
    tally_V.index_fill_(0, rows_R, 0.0)
    return together_R.reciprocal_().mul_(most).clamp_max_(1.0)
