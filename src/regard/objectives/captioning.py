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

from regard.core.errors import UserError
from regard.data.batching.captions import ImageBatch
from regard.model.probe import Probe, probe
from regard.objectives.base import Loss
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.text.specials import PAD


@dataclass(frozen=True, kw_only=True)
class CaptioningConfig:
    name: Literal["captioning"] = "captioning"
    smoothing: float = 0.0
    coverage: float = 0.0  # the paper's lambda

    passes = 1  # of a batch through the model in a step of training

    def __post_init__(self) -> None:
        Seq2SeqConfig(smoothing=self.smoothing)
        if not 0 <= self.coverage < float("inf"):
            raise UserError(f"objective.coverage={self.coverage} must be 0 (off) or more, such as 1.")


class CaptioningLoss:
    def __init__(self, config: CaptioningConfig) -> None:
        self.words, self.coverage = Seq2SeqLoss(Seq2SeqConfig(smoothing=config.smoothing)), config.coverage

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
