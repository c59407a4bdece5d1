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

from regard.data.word_blocks import BLOCK, Blocks
from regard.errors import UserError
from regard.families.words import WordTables

STEADY = 2.0  # the most that the steps of one row in a batch may weigh together, each weighing the rate


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    shared = 32  # negatives of a block
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
    part = 512  # words of a batch that are worked on together

    @property
    def products(self) -> float:
        """Of vectors, for a word: with every neighbour, of which there are window + 1 on average, and the negatives of each."""
        return (self.window + 1) * (1 + self.negatives)


@dataclass(frozen=True, kw_only=True)
class CBOWConfig(SamplingConfig):
    name: Literal["cbow"] = "cbow"
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

    def __init__(self, tables: WordTables, config: SkipGramConfig | CBOWConfig) -> None:
        self.tables, self.config = tables, config
        self.both = (tables.words.weight.data, tables.contexts.weight.data)
        self.tally = [torch.zeros(len(table)) for table in self.both]
        self.before, self.after = reaches(config.window)
        self.moments: dict[str, Tensor] = {}

    def find(self, part: Blocks) -> tuple[list[Steps], list[Steps]]:
        """For the words' table, and for the contexts'."""
        find = _skipgram if self.config.name == "skipgram" else _cbow
        return find(*self.both, part, self.band(part), self.config.negatives / part.negatives_NK.shape[1])

    def take(self, table: int, found: Sequence[Steps], rate: float) -> None:
        rows_R, weight_R = torch.cat([steps.rows_R for steps in found]), torch.cat([steps.weight_R for steps in found])
        share_R = steady_share(self.tally[table], rows_R, weight_R, STEADY / rate)
        begin = 0
        for rows, steps_RD, _ in found:
            share = rate if share_R is None else rate * share_R[begin : begin + len(rows), None]
            self.both[table].index_add_(0, rows, steps_RD.mul_(share))  # its own factor, alpha, would take three times as long
            begin += len(rows)

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
        first_T = torch.arange(part.left_NT.shape[1]) * (self.config.window + 1)
        return _rows(self.before, part.left_NT + first_T).add_(_rows(self.after, part.right_NT + first_T))


def reaches(window: int) -> tuple[Tensor, Tensor]:
    """What each word of a block sees before it and after it, by its place and by how far its window reaches: rows of M."""
    offset_TM = torch.arange(BLOCK + 2 * window) - torch.arange(BLOCK)[:, None] - window
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


def _cbow(words_VD: Tensor, contexts_VD: Tensor, part: Blocks, band_NTM: Tensor, each: float) -> tuple[list[Steps], list[Steps]]:
    asked_NT, pairs_NT1 = middle(part), band_NTM.sum(2, keepdim=True)
    some_NT1, mean_NTD = pairs_NT1.clamp_max(1), _means(words_VD, part, band_NTM)
    y_NTD, drawn_NKD = _rows(contexts_VD, asked_NT), _rows(contexts_VD, part.negatives_NK)
    right_NT1 = (mean_NTD * y_NTD).sum(2, keepdim=True).neg_().sigmoid_().mul_(some_NT1)
    wrong_NTK = torch.bmm(mean_NTD, drawn_NKD.mT).sigmoid_().mul_(-each * some_NT1)
    error_NTD = torch.baddbmm(y_NTD.mul_(right_NT1), wrong_NTK, drawn_NKD)
    to_drawn_NKD, drawn_times_N1 = torch.bmm(wrong_NTK.mT, mean_NTD), each * some_NT1.sum(1)
    share_NT1 = (1 + each * drawn_NKD.shape[1]) / pairs_NT1.clamp_min_(1)  # of a neighbour in the mean, for every answer
    return (
        [_steps(part.around_NM, torch.bmm(band_NTM.mT, error_NTD), torch.bmm(band_NTM.mT, share_NT1))],
        [
            _steps(asked_NT, mean_NTD.mul_(right_NT1), some_NT1),
            _steps(part.negatives_NK, to_drawn_NKD, drawn_times_N1.expand(part.negatives_NK.shape)),
        ],
    )


def _steps(rows: Tensor, steps: Tensor, weight: Tensor) -> Steps:
    return Steps(rows.reshape(-1), steps.flatten(0, 1), weight.reshape(-1))


def _means(words_VD: Tensor, part: Blocks, band_NTM: Tensor) -> Tensor:
    """mean_NTD of the vectors around each word; 0 where there are none."""
    sum_NTD = torch.bmm(band_NTM, _rows(words_VD, part.around_NM))
    return sum_NTD.div_(band_NTM.sum(2, keepdim=True).clamp_min_(1))


def _rows(table: Tensor, numbers: Tensor) -> Tensor:
    return table.index_select(0, numbers.reshape(-1)).view(*numbers.shape, -1)


def steady_share(tally_V: Tensor, rows_R: Tensor, weight_R: Tensor, most: float) -> Tensor | None:
    """By which the steps of each row are shortened, so that those of one row weigh `most` together; None where all do anyway."""
    tally_V.index_add_(0, rows_R, weight_R)
    together_R = tally_V.index_select(0, rows_R)
    tally_V.index_fill_(0, rows_R, 0.0)
    return (most / together_R).clamp_max_(1.0) if together_R.max() > most else None
