"""An objective of your own: cross-entropy with a penalty on large logits (the z-loss of PaLM, Chowdhery et al. 2022).

    regard train translate objective.name=z_loss objective.weight=1e-3 --plugin examples/objective.py --out runs/z

An objective takes a model and a batch and returns sums over the tokens that count, so that micro-batches and processes add up.
Outside training it reports `nll`, which validation compares.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F

import regard
from regard.objectives.base import Loss
from regard.text.specials import PAD


@dataclass(frozen=True, kw_only=True)
class ZLossConfig:
    """Settings of the [objective] section."""

    name: Literal["z_loss"] = "z_loss"
    weight: float = 1e-4
    passes: int = 1  # of a batch through the model, for the estimate of the cost


class ZLoss:
    """Cross-entropy plus weight * log(Z)^2, where Z is the sum of exponentiated logits."""

    def __init__(self, config: ZLossConfig) -> None:
        self.weight = config.weight

    def __call__(self, model: Any, batch: Any) -> Loss:
        targets_N = batch.target_out_BL.flatten()
        logits_NV = model.head(model.hidden(*batch.inputs)).flatten(0, 1).float()
        nll = F.cross_entropy(logits_NV, targets_N, ignore_index=PAD, reduction="sum")
        penalty = (logits_NV.logsumexp(-1)[targets_N != PAD] ** 2).sum()
        return Loss(nll + self.weight * penalty, {} if model.training else {"nll": nll}, batch.tokens)


regard.register.objective("z_loss", ZLossConfig, ZLoss, tasks=["translation"])
