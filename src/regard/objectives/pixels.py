"""The likelihood of images: predict every level of every pixel from those before it.

    L = - sum over levels of ln p(level | levels before)      bits per dimension = L / (levels ln 2)

Parmar et al. 2018, section 3: by the probabilities of all levels, or by a mixture of logistics, of which only the mass at the
true level is computed. A start token, which may say a class, and a small image that stands before it are read, not predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Literal

from regard.data.batching.pixels import PixelBatch
from regard.model.vision.logistic import COLOURS, coupled_likelihood, log_likelihood
from regard.objectives.base import Loss
from regard.objectives.chunked_cross_entropy import chunked_loss, cross_entropy

BIT = log(2)  # nats


@dataclass(frozen=True, kw_only=True)
class PixelsConfig:
    name: Literal["pixels"] = "pixels"
    passes = 1


class PixelsLoss:
    """The negative log-likelihood of images in nats, summed over their levels."""

    def __init__(self, config: PixelsConfig) -> None:
        self.config = config

    def __call__(self, model: Any, batch: PixelBatch) -> Loss:
        config, level_BL = model.config, batch.level_BL.long()
        ids_BL = model.order.ids(level_BL, batch.class_B, batch.small_BM)
        x_BLD = model.hidden(ids_BL[:, :-1])[:, model.order.prefix :]
        if config.output == "categorical":
            total = chunked_loss(cross_entropy, model.head, x_BLD.flatten(0, 1), level_BL.flatten(), fill=True)
        elif config.coupled:
            total = -coupled_likelihood(model.numbers(x_BLD), level_BL.unflatten(1, (-1, COLOURS)), config.levels).sum()
        else:
            total = -log_likelihood(model.numbers(x_BLD), level_BL, config.levels).sum()
        return Loss(total, {"nll": total}, batch.tokens)


def bits(nats: float) -> float:
    return nats / BIT
