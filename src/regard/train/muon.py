"""Muon (Jordan et al. 2024): the step of a matrix is its momentum made orthogonal, so that no direction is left behind.

For the matrices inside blocks only; embeddings, biases and norms keep AdamW. Steps are scaled to be as long as AdamW's are
(Liu et al. 2025, section 2.2), so one learning rate serves both. Dims: N matrices of one shape, O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of a quintic that draws singular values near 1 in few rounds
ROUNDS = 5
LENGTH = 0.2  # of a step of AdamW, root mean square


class Muon(torch.optim.AdamW):
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
        """Nesterov's: one look ahead."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["momentum"], state["step"] = torch.zeros_like(weight), torch.zeros(())  # AdamW restores none without its step
        state["step"] += 1
        state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
        return weight.grad.lerp(state["momentum"], MOMENTUM)


def orthogonal(matrices_NOI: Tensor) -> Tensor:
    """Each near U V^T of its singular value decomposition, by Newton and Schulz's iteration, in half precision on a GPU."""
    x = matrices_NOI.bfloat16() if matrices_NOI.is_cuda else matrices_NOI
    wide = x.shape[1] <= x.shape[2]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    first, second, third = COEFFICIENTS
    for _ in range(ROUNDS):
        squares = x @ x.mT
        x = first * x + (second * squares + third * squares @ squares) @ x
    return (x if wide else x.mT).to(matrices_NOI.dtype)
