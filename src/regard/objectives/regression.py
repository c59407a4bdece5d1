"""Regression: predict a number for a text, such as the similarity of two sentences.

    L = (score - (number - mean) / deviation)^2 / 2

which is, up to a constant, -log p of a normal distribution around the score with standard deviation 1. Always predicting the mean
has a loss of 0.5 on training texts. Devlin et al. 2019 fine-tune for STS-B in this way.

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
    """Half the squared error in standard deviations."""

    def __init__(self, deviation: float = 1.0) -> None:
        self.deviation = deviation  # standard deviation of the labels: reported errors are in their unit

    def __call__(self, model: Classifier, batch: LabelledBatch) -> Loss:
        """Return the loss; `labels_N` are numbers in standard deviations, and the model has one score a text."""
        predicted_N = model(batch.ids_BL, batch.words, batch.segments_BL).float().squeeze(-1)
        error_N = predicted_N - batch.labels_N
        error_N = error_N.masked_fill(batch.labels_N == IGNORED, 0.0)
        total = error_N.square().sum() / 2
        if model.training:
            return Loss(total, {}, batch.tokens)
        return Loss(total, {"nll": total, "off_by": error_N.abs().sum() * self.deviation}, batch.tokens, predicted_N)
