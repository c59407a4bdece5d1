"""Translation: predict every target word from the source and the words before it, with label smoothing.

Vaswani et al. 2017, section 5.4: the aim is not 1 for the right word but 1 - e, with e spread evenly over the vocabulary
(Szegedy et al. 2016). It costs perplexity and gains BLEU, so the unsmoothed loss `nll` is what validation reports.

`agreement` a > 0 adds R-Drop (Liang et al. 2021): each batch passes twice under different dropout, and the two predictions p, q
are pulled together by a (KL(p|q) + KL(q|p)) / 4. A strong regulariser for small data, for twice the time a step. Differs from the
paper in a factor of two over all: the two cross-entropies are averaged, so that losses stay comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.errors import UserError
from regard.objective.loss import Loss
from regard.text.vocabulary import PAD


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    name: Literal["translation"] = "translation"
    smoothing: float = 0.1
    agreement: float = 0.0

    @property
    def passes(self) -> int:
        """How often a batch goes through the model in a step of training."""
        return 2 if self.agreement else 1

    def __post_init__(self) -> None:
        if not 0 <= self.agreement < float("inf"):
            raise UserError(f"objective.agreement={self.agreement} must be 0 (off) or more, such as 5.")
        if not 0 <= self.smoothing < 1:
            raise UserError(f"objective.smoothing={self.smoothing} must be at least 0 and less than 1.")


class TranslationLoss:
    def __init__(self, config: TranslationConfig) -> None:
        self.smoothing, self.agreement = config.smoothing, config.agreement

    def __call__(self, model: nn.Module, batch: Batch) -> Loss:
        if model.training and self.agreement:
            return self._twice(model, batch)
        logits_BLV = model(batch.source_BM, batch.source_lengths_B, batch.target_in_BL)
        total = self._cross_entropy(logits_BLV, batch.target_out_BL, self.smoothing)
        if model.training:
            return Loss(total, {}, batch.tokens)
        nll = self._cross_entropy(logits_BLV, batch.target_out_BL, 0.0) if self.smoothing else total
        return Loss(total, {"nll": nll}, batch.tokens)

    @staticmethod
    def _cross_entropy(logits_BLV: Tensor, targets_BL: Tensor, smoothing: float) -> Tensor:
        logits, targets = logits_BLV.flatten(0, 1).float(), targets_BL.flatten()
        return F.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)

    def _twice(self, model: nn.Module, batch: Batch) -> Loss:
        source, lengths, target_in, target_out = (
            torch.cat([t, t]) for t in (batch.source_BM, batch.source_lengths_B, batch.target_in_BL, batch.target_out_BL)
        )
        logits_BLV = model(source, lengths, target_in)
        p, q = logits_BLV.float().log_softmax(-1).chunk(2)
        words_BL1 = (batch.target_out_BL != PAD)[..., None]
        divergence = ((p.exp() - q.exp()) * (p - q)).masked_fill(~words_BL1, 0.0).sum()  # KL(p|q) + KL(q|p)
        cross_entropy = self._cross_entropy(logits_BLV, target_out, self.smoothing) / 2
        return Loss(cross_entropy + self.agreement * divergence / 4, {}, batch.tokens)
