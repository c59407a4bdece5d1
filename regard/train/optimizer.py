"""Adam as in the paper (Kingma & Ba 2015), or AdamW (Loshchilov & Hutter 2019), with torch's fused kernels."""

from __future__ import annotations

import torch
from torch import nn

from regard.train.config import TrainConfig


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    return kind(groups, lr=0.0, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
