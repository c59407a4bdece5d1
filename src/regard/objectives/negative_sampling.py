"""Skip-gram and CBOW with negative sampling: word vectors that tell a word's neighbours from words drawn at random.

Mikolov et al. 2013, Distributed representations of words and phrases, equation 4: for a word and one of its neighbours, raise

    log sigma(x . y) + k E_n [log sigma(-x . y_n)]                x of the word, y of the neighbour, y_n of drawn words

Skip-gram asks every neighbour of a word; CBOW asks the word itself, of the mean of its neighbours. There is nothing to
differentiate that cannot be written down: the error of a pair, 1 - sigma or -sigma, times the other vector. Each vector has its
own steps, so these are returned as rows and what to add to them; words of a block share negatives, each of which counts as
many times as makes k a pair.

As in the authors' program, CBOW gives each neighbour the whole error of the mean, not its share of it. Differs from it in: a
batch of words is stepped on at once, and a word that comes up very often in one has its sum of steps bounded, where a step after
the other would have found its own end; a drawn word that happens to be the right one is not left out.

Dims: N blocks, T words of a block, M with those around, K negatives, D width, V vocabulary, R rows to step on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.word_vectors import Blocks
from regard.families.word2vec import Word2Vec

STEADY = 2.0  # the most that the steps of one row in a batch may weigh together, each weighing the rate


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    passes = 1  # through a batch
    window: int = 5  # words on either side, at most; how many is drawn for each word
    negatives: int = 5  # drawn words for each right one
    power: float = 0.75  # of their counts, by which they are drawn
    subsample: float = 1e-3  # frequent words are left out the more often, the more their share is above this; 0: none is

    def __post_init__(self) -> None:
        for key in ("window", "negatives"):
            if not 1 <= getattr(self, key) <= 100:
                raise UserError(f"objective.{key}={getattr(self, key)} must be from 1 to 100.")
        if not 0 <= self.subsample < 1:
            raise UserError(f"objective.subsample={self.subsample} must be a share from 0 (off) to below 1, such as 0.001.")
        if not 0 <= self.power <= 2:
            raise UserError(f"objective.power={self.power} must be from 0 to 2.")


@dataclass(frozen=True, kw_only=True)
class SkipGramConfig(SamplingConfig):
    name: Literal["skipgram"] = "skipgram"
    block, shared = 32, 32  # words in a row, and the negatives that they share
    part = 512  # words of a batch that are worked on together

    @property
    def products(self) -> float:
        """Of vectors, for a word: with every neighbour, of which there are window + 1 on average, and the negatives of each."""
        return (self.window + 1) * (1 + self.negatives)


@dataclass(frozen=True, kw_only=True)
class CBOWConfig(SamplingConfig):
    name: Literal["cbow"] = "cbow"
    block, shared = 16, 16
    part = 1024

    @property
    def products(self) -> float:
        """Half of one for each neighbour, to sum them; one with the word, and one with each negative."""
        return (self.window + 1) / 2 + 1 + self.negatives


class Steps(NamedTuple):
    """What to add to rows of a table, times the rate; `weight_R` says of how many pairs each is the sum."""

    rows_R: Tensor
    steps_RD: Tensor
    weight_R: Tensor


class NegativeSampling:
    """The steps of a batch in two turns: find them for any part of it, from tables that stand still; then take them, by table."""

    def __init__(self, tables: Word2Vec, config: SkipGramConfig | CBOWConfig) -> None:
        self.tables, self.config = tables, config
        self.both = (tables.words.weight.data, tables.contexts.weight.data)
        self.tally = [torch.zeros(len(table)) for table in self.both]
        self.before, self.after = reaches(config.window, config.block)
        self.first_T = torch.arange(config.block) * (config.window + 1)  # row of each place there
        self.shares = torch.arange(2 * config.window + 1).clamp(min=1).reciprocal()[:, None]  # of a neighbour, by their number
        self.moments: dict[str, Tensor] = {}

    def find(self, part: Blocks) -> tuple[list[Steps], list[Steps]]:
        """For the words' table, and for the contexts'."""
        each, band_NTM = self.config.negatives / part.negatives_NK.shape[1], self.band(part)
        if self.config.name == "skipgram":
            return _skipgram(*self.both, part, band_NTM, each)
        return _cbow(*self.both, part, band_NTM, _rows(self.shares, part.left_NT + part.right_NT), each)

    def take(self, table: int, found: Sequence[Steps], rate: float) -> None:
        rows_R, weight_R = torch.cat([steps.rows_R for steps in found]), torch.cat([steps.weight_R for steps in found])
        share_R = steady_share(self.tally[table], rows_R, weight_R, STEADY / rate).mul_(rate)
        for (rows, steps_RD, _), share_R1 in zip(found, share_R[:, None].split([len(steps.rows_R) for steps in found])):
            self.both[table].index_add_(0, rows, steps_RD.mul_(share_R1))  # its own factor, alpha, would take three times as long

    def loss(self, part: Blocks) -> float:
        """The mean of what equation 4 wants raised, below zero, over the right answers of these blocks."""
        words_VD, contexts_VD = self.both
        band_NTM = self.band(part)
        if self.config.name == "skipgram":
            x_NTD, pairs_NT = _rows(words_VD, middle(part)), band_NTM.sum(2)
            right = F.logsigmoid(x_NTD @ _rows(contexts_VD, part.around_NM).mT).mul(band_NTM).sum()
        else:
            x_NTD, pairs_NT = _means(words_VD, part, band_NTM), band_NTM.amax(2)
            right = F.logsigmoid((x_NTD * _rows(contexts_VD, middle(part))).sum(2)).mul(pairs_NT).sum()
        wrong_NT = F.logsigmoid(-(x_NTD @ _rows(contexts_VD, part.negatives_NK).mT)).mean(2)
        total = right + self.config.negatives * (wrong_NT * pairs_NT).sum()
        return float(-total / pairs_NT.sum().clamp_min(1))

    def band(self, part: Blocks) -> Tensor:
        """band_NTM: 1 where a word of a block has another in its window. Looked up, which takes a quarter of comparing."""
        return _rows(self.before, part.left_NT + self.first_T).add_(_rows(self.after, part.right_NT + self.first_T))


def reaches(window: int, block: int) -> tuple[Tensor, Tensor]:
    """What each word of a block sees before it and after it, by its place and by how far its window reaches: rows of M."""
    offset_TM = torch.arange(block + 2 * window) - torch.arange(block)[:, None] - window
    reach = torch.arange(window + 1)[:, None]
    near_TRM = (offset_TM[:, None].abs() <= reach) & (offset_TM[:, None] != 0)
    sides = [(near_TRM & (sign * offset_TM[:, None] > 0)).float().flatten(0, 1) for sign in (-1, 1)]
    return sides[0], sides[1]


def middle(part: Blocks) -> Tensor:
    """The block itself: numbers_NT."""
    aside = (part.around_NM.shape[1] - part.left_NT.shape[1]) // 2
    return part.around_NM[:, aside : aside + part.left_NT.shape[1]]


def _skipgram(
    words_VD: Tensor, contexts_VD: Tensor, part: Blocks, band_NTM: Tensor, each: float
) -> tuple[list[Steps], list[Steps]]:
    asked_NT, pairs_NT1 = middle(part), band_NTM.sum(2, keepdim=True)
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
    """What is a mean in the formula stays a sum here: its share multiplies scores and errors, which are fewer numbers."""
    asked_NT = middle(part)
    sum_NTD = torch.bmm(band_NTM, _rows(words_VD, part.around_NM))
    y_NTD, drawn_NKD = _rows(contexts_VD, asked_NT), _rows(contexts_VD, part.negatives_NK)
    right_NT1 = (sum_NTD * y_NTD).sum(2, keepdim=True).mul_(share_NT1).neg_().sigmoid_()
    wrong_NTK = torch.bmm(sum_NTD, drawn_NKD.mT).mul_(share_NT1).sigmoid_().mul_(-each)
    error_NTD = y_NTD.mul_(right_NT1).baddbmm_(wrong_NTK, drawn_NKD)  # of a word without neighbours it goes nowhere
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
    """mean_NTD of the vectors around each word; 0 where there are none."""
    sum_NTD = torch.bmm(band_NTM, _rows(words_VD, part.around_NM))
    return sum_NTD.div_(band_NTM.sum(2, keepdim=True).clamp_min_(1))


_rows = torch.embedding  # of a table, by their numbers


def steady_share(tally_V: Tensor, rows_R: Tensor, weight_R: Tensor, most: float) -> Tensor:
    """By which the steps of each row are shortened, so that those of one row weigh `most` together; 1 where they do anyway."""
    tally_V.index_add_(0, rows_R, weight_R)
    together_R = tally_V.index_select(0, rows_R)
    tally_V.index_fill_(0, rows_R, 0.0)
    return together_R.reciprocal_().mul_(most).clamp_max_(1.0)
