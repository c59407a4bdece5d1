"""Optimizers: Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019), both with torch's fused kernels, and Muon over AdamW.

Muon (Jordan et al. 2024): the step of a matrix is its momentum, orthogonalised. It is for the matrices inside blocks only;
embeddings, biases and norms keep AdamW. Steps are scaled to the length of AdamW's (Liu et al. 2025, section 2.2), so one learning
rate serves both. Dims: N matrices of one shape, O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.model.block import Stack
from regard.training.config import TrainConfig


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
def rate_on_device(optimizer: torch.optim.Optimizer, rate: Tensor) -> Iterator[None]:
    """Read the learning rate from a tensor on the device within the context, so that a captured step uses the current one."""
    before = [(group["lr"], group["capturable"]) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"], group["capturable"] = rate, True
    try:
        yield
    finally:
        for group, (was, capturable) in zip(optimizer.param_groups, before):
            group["lr"], group["capturable"] = was, capturable


MOMENTUM = 0.95
COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of a quintic polynomial that moves singular values near 1 in few rounds
ROUNDS = 5
LENGTH = 0.2  # of a step of AdamW, root mean square


class Muon(torch.optim.AdamW):
    """Muon for matrices, AdamW for all other parameters."""

    def __init__(self, matrices: Sequence[nn.Parameter], others: list[dict[str, Any]], weight_decay: float, **adam: Any) -> None:
        super().__init__([*others, {"params": list(matrices), "weight_decay": weight_decay, "orthogonal": True}], **adam)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        groups = self.param_groups
        try:
            self.param_groups = [group for group in groups if not group.get("orthogonal")]
            super().step()
        finally:
            self.param_groups = groups
        for group in groups:
            if group.get("orthogonal"):
                self._step(group)

    def _step(self, group: dict[str, Any]) -> None:
        alike: dict[torch.Size, list[Tensor]] = {}
        for weight in group["params"]:
            if weight.grad is not None:
                alike.setdefault(weight.shape, []).append(weight)
        lost = getattr(self, "found_inf", None)
        for shape, weights in alike.items():
            steps_NOI = LENGTH * max(shape) ** 0.5 * orthogonal(torch.stack([self._momentum(weight) for weight in weights]))
            for weight, step in zip(weights, steps_NOI):
                step = group["lr"] * (step + group["weight_decay"] * weight)
                weight.sub_(step if lost is None else torch.where(lost > 0, 0.0, step))

    def _momentum(self, weight: Tensor) -> Tensor:
        """Return the Nesterov momentum of a weight."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["momentum"], state["step"] = torch.zeros_like(weight), torch.zeros(())  # AdamW restores no state without a step
        state["step"] += 1
        state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
        return weight.grad.lerp(state["momentum"], MOMENTUM)


def orthogonal(matrices_NOI: Tensor) -> Tensor:
    """Return each matrix as about U V^T of its singular value decomposition, by Newton-Schulz iteration, in bfloat16 on a GPU."""
    x = matrices_NOI.bfloat16() if matrices_NOI.is_cuda else matrices_NOI
    wide = x.shape[1] <= x.shape[2]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    first, second, third = COEFFICIENTS
    for _ in range(ROUNDS):
        squares = x @ x.mT
        x = first * x + (second * squares + third * squares @ squares) @ x
    return (x if wide else x.mT).to(matrices_NOI.dtype)
