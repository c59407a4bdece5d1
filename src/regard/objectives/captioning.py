"""Captioning: predict every word from the image and the words before it; optionally, attend to all cells of the image evenly.

Xu et al. 2015, section 4.2.1, equation 14: attention sums to one over the cells of a word by itself; `coverage` adds
lambda (1 - sum over words of the weight of a cell)^2 for every cell, so that a caption as a whole attends to all cells about
equally (doubly stochastic attention). Weights are those that a probe records, so every mixer and every decoder has them; heads
and layers are averaged.

Dims: B batch, H heads, L caption length, M cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from regard.core.config import Bounds, Fraction, check_bounds
from regard.data.batching.captions import ImageBatch
from regard.model.probe import Probe, probe
from regard.objectives.base import Loss
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.text.specials import PAD


@dataclass(frozen=True, kw_only=True)
class CaptioningConfig:
    name: Literal["captioning"] = "captioning"
    smoothing: Fraction = 0.0
    coverage: Annotated[float, Bounds(0, zero="off", example="1")] = 0.0  # the paper's lambda
    passes = 1  # of a batch through the model in a step of training

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class CaptioningLoss:
    """The cross-entropy of captions and, in training, the coverage penalty."""

    def __init__(self, config: CaptioningConfig) -> None:
        self.words, self.coverage = Seq2SeqLoss(Seq2SeqConfig(smoothing=config.smoothing)), config.coverage

    def __call__(self, model: Any, batch: ImageBatch) -> Loss:
        if not (model.training and self.coverage):
            return self.words(model, batch)
        with probe(model) as seen:
            loss = self.words(model, batch)
            penalty = coverage_penalty(seen, batch.target_out_BL != PAD)
        return Loss(loss.total + self.coverage * penalty, loss.parts, loss.count)


def coverage_penalty(seen: Probe, words_BL: Tensor) -> Tensor:
    """Return (1 - attention received)^2, summed over images and cells."""
    weights_BLM = torch.stack([seen[name].weights().mean(1) for name in seen if name.endswith(".cross")]).mean(0)
    received_BM = (weights_BLM * words_BL[..., None]).sum(1)
    return (1 - received_BM).square().sum()
