"""Adam as in the paper (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019), with torch's fused kernels, or Muon over AdamW."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.model.stack import Stack
from regard.train.config import TrainConfig
from regard.train.muon import Muon


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    learned = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in learned if p.dim() >= 2]
    others = [p for p in learned if p.dim() < 2]
    if config.optimizer == "muon":
        blocks = [p for module in model.modules() if isinstance(module, Stack) for p in module.parameters()]
        inner = [p for p in blocks if p.dim() == 2 and p.requires_grad]
        matrices = [p for p in matrices if not any(p is q for q in inner)]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    adam = dict(lr=0.0, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=True)
    if config.optimizer == "muon":
        return Muon(inner, groups, config.weight_decay, **adam)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    return kind(groups, **adam)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


@contextmanager
def numbers_on_device(optimizer: torch.optim.Optimizer, rate: Tensor) -> Iterator[None]:
    """In here the learning rate is read from where it lies on the device, so that a recorded step takes the one of its day."""
    before = [(group["lr"], group["capturable"]) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"], group["capturable"] = rate, True
    try:
        yield
    finally:
        for group, (was, capturable) in zip(optimizer.param_groups, before):
            group["lr"], group["capturable"] = was, capturable
