"""Regression: give a text a number, such as how alike two sentences are. Half the squared error, the number in deviations.

    L = (score - (number - mean) / deviation)^2 / 2

which is, up to a constant, -log p of a normal distribution around the score with a deviation of 1. Always saying the mean loses
0.5 on training texts; what is below is what has been learned. Devlin et al. 2019 fine-tune for STS-B so.

Dims: N texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.core.packing import IGNORED
from regard.data.batching.labelled import LabelledBatch
from regard.families.classifier import Classifier
from regard.objectives.base import Loss


@dataclass(frozen=True, kw_only=True)
class RegressionConfig:
    name: Literal["regression"] = "regression"
    passes = 1
    language = 0.0


class RegressionLoss:
    def __init__(self, deviation: float = 1.0) -> None:
        self.deviation = deviation  # of the numbers, for people who are told how far off a model is

    def __call__(self, model: Classifier, batch: LabelledBatch) -> Loss:
        """`labels_N` are numbers, in deviations; of the model's scores there is one a text."""
        said_N = model(batch.ids_BL, batch.words, batch.segments_BL).float().squeeze(-1)
        off_N = said_N - batch.labels_N
        off_N = off_N.masked_fill(batch.labels_N == IGNORED, 0.0)
        total = off_N.square().sum() / 2
        if model.training:
            return Loss(total, {}, batch.tokens)
        return Loss(total, {"nll": total, "off_by": off_N.abs().sum() * self.deviation}, batch.tokens, said_N)
