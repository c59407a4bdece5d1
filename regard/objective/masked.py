"""Masked words: fill in the words that were taken out (Devlin et al. 2019, section 3.1).

Only the masked positions are asked for, so the head and its words cost a sixth of what they would for every position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.masks import MaskedBatch
from regard.objective.loss import Loss, Model
from regard.objective.vocabulary import cross_entropy, vocabulary_loss


@dataclass(frozen=True, kw_only=True)
class MaskedConfig:
    name: Literal["masked"] = "masked"
    passes = 1


class MaskedLoss:
    def __init__(self, config: MaskedConfig) -> None:
        self.config = config

    def __call__(self, model: Model, batch: MaskedBatch) -> Loss:
        x_TD = model.hidden(batch.ids_BL, batch.words).flatten(0, 1)
        total = vocabulary_loss(cross_entropy, model.head, x_TD[batch.masked_N], batch.targets_N, fill=True)
        return Loss(total, {"nll": total}, batch.tokens)
