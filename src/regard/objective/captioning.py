"""Captioning: predict every word from the image and the words before it; and, if asked to, look at all of the image once.

Xu et al. 2015, section 4.2.1, equation 14: attention sums to one over the cells of a word by itself; `coverage` adds
lambda (1 - sum over words of the weight of a cell)^2 for every cell, so that a caption's looks together are about even (doubly
stochastic attention). Weights are those that a probe sees, so every mixer and every decoder has them; of several heads and
layers, the mean.

Dims: B batch, H heads, L caption length, M cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from regard.data.caption_batches import ImageBatch
from regard.errors import UserError
from regard.model.probe import Probe, probe
from regard.objective.loss import Loss
from regard.objective.translation import TranslationConfig, TranslationLoss
from regard.text.vocabulary import PAD


@dataclass(frozen=True, kw_only=True)
class CaptioningConfig:
    name: Literal["captioning"] = "captioning"
    smoothing: float = 0.0
    coverage: float = 0.0  # the paper's lambda

    passes = 1  # of a batch through the model in a step of training

    def __post_init__(self) -> None:
        TranslationConfig(smoothing=self.smoothing)
        if not 0 <= self.coverage < float("inf"):
            raise UserError(f"objective.coverage={self.coverage} must be 0 (off) or more, such as 1.")


class CaptioningLoss:
    def __init__(self, config: CaptioningConfig) -> None:
        self.words, self.coverage = TranslationLoss(TranslationConfig(smoothing=config.smoothing)), config.coverage

    def __call__(self, model: Any, batch: ImageBatch) -> Loss:
        if not (model.training and self.coverage):
            return self.words(model, batch)
        with probe(model) as seen:
            loss = self.words(model, batch)
            uneven = unevenness(seen, batch.target_out_BL != PAD)
        return Loss(loss.total + self.coverage * uneven, loss.parts, loss.count)


def unevenness(seen: Probe, words_BL: Tensor) -> Tensor:
    """Summed over images and cells."""
    weights_BLM = torch.stack([seen[name].weights().mean(1) for name in seen if name.endswith(".cross")]).mean(0)
    looked_BM = (weights_BLM * words_BL[..., None]).sum(1)
    return (1 - looked_BM).square().sum()
