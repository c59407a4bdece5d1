"""Translation: predict every target word from the source and the words before it, with label smoothing.

Vaswani et al. 2017, section 5.4: the aim is not 1 for the right word but 1 - e, with e spread evenly over the vocabulary
(Szegedy et al. 2016). It costs perplexity and gains BLEU, so the unsmoothed loss `nll` is what validation reports.

`r_drop` adds R-Drop (`r_drop.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.pairs import Batch, PackedBatch
from regard.objectives.base import Loss, Model
from regard.objectives.chunked_cross_entropy import vocabulary_loss
from regard.objectives.r_drop import check_r_drop, divergence
from regard.text.specials import PAD

if TYPE_CHECKING:
    from regard.data.batching.captions import ImageBatch  # reads images, which a translator has none of


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    name: Literal["translation"] = "translation"
    smoothing: float = 0.1
    r_drop: float = 0.0

    @property
    def passes(self) -> int:
        """How often a batch goes through the model in a step of training."""
        return 2 if self.r_drop else 1

    def __post_init__(self) -> None:
        check_r_drop(self.r_drop)
        if not 0 <= self.smoothing < 1:
            raise UserError(f"objective.smoothing={self.smoothing} must be at least 0 and less than 1.")


class Seq2SeqLoss:
    def __init__(self, config: Seq2SeqConfig) -> None:
        self.smoothing, self.r_drop = config.smoothing, config.r_drop

    def __call__(self, model: Model, batch: Batch | PackedBatch | ImageBatch) -> Loss:
        targets_N = batch.target_out_BL.flatten()
        if model.training and self.r_drop:
            x_2ND = model.hidden(*batch.twice().inputs).flatten(0, 1).unflatten(0, (2, -1))
            return Loss(vocabulary_loss(self._agreeing, model.head, x_2ND, targets_N), {}, batch.tokens)
        x_ND = model.hidden(*batch.inputs).flatten(0, 1)
        total = vocabulary_loss(self._smoothed, model.head, x_ND, targets_N)
        if model.training:
            return Loss(total, {}, batch.tokens)
        nll = vocabulary_loss(_plain, model.head, x_ND, targets_N) if self.smoothing else total
        return Loss(total, {"nll": nll}, batch.tokens)

    def _smoothed(self, logits_NV: Tensor, targets_N: Tensor) -> Tensor:
        return _cross_entropy(logits_NV, targets_N, self.smoothing)

    def _agreeing(self, logits_2NV: Tensor, targets_N: Tensor) -> Tensor:
        total = _cross_entropy(logits_2NV.flatten(0, 1), targets_N.repeat(2), self.smoothing) / 2
        return total + self.r_drop * divergence(logits_2NV[0], logits_2NV[1], targets_N != PAD)


def _plain(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    return _cross_entropy(logits_NV, targets_N, 0.0)


def _cross_entropy(logits_NV: Tensor, targets_N: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(logits_NV.float(), targets_N, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)
