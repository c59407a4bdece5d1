"""Gates that are learned: which heads a model can do without is trained, with its weights as they are.

Voita et al. 2019, section 5, after Louizos, Welling & Kingma 2018. A gate is drawn from a hard concrete distribution, which is
often exactly 0 or exactly 1 and still has a slope: u uniform, s = sigmoid((log u - log(1 - u) + a) / BETA), stretched from LOW to
HIGH and cut to 0..1. The loss is the model's own, plus a penalty for the number of gates that are expected to be open. Only the
gates' a are trained; the chance that a gate is open says how important its head has proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.lens.analyses.importance import Importance
from regard.model.probe import attentions, probe

BETA, LOW, HIGH = 2 / 3, -0.1, 1.1
OPEN = 2.0  # where a begins: nearly open, so that training starts from the model as it is
RATE = 0.05
STEPS = 300
PENALTY = 0.01  # of one more gate open, beside a loss in nats a token


class LearnedGates:
    """One number a head, of all attentions of a model."""

    def __init__(self, model: nn.Module, seed: int) -> None:
        device = next(model.parameters()).device
        self.a = {
            name: torch.full((one.heads,), OPEN, device=device, requires_grad=True) for name, one in attentions(model).items()
        }
        self.draw = torch.Generator().manual_seed(seed)

    def drawn(self) -> dict[str, Tensor]:
        return {name: hard_concrete(a_H, torch.rand(len(a_H), generator=self.draw).to(a_H)) for name, a_H in self.a.items()}

    def chances(self) -> dict[str, Tensor]:
        """That a gate is not 0."""
        return {name: torch.sigmoid(a_H - BETA * math.log(-LOW / HIGH)) for name, a_H in self.a.items()}


def hard_concrete(a_H: Tensor, u_H: Tensor) -> Tensor:
    """A gate for each uniform number between 0 and 1."""
    u_H = u_H.clamp(1e-6, 1 - 1e-6)
    s_H = torch.sigmoid((u_H.log() - (-u_H).log1p() + a_H) / BETA)
    return (s_H * (HIGH - LOW) + LOW).clamp(0, 1)


def learn_gates(
    model: nn.Module, loss: Callable[[int], Tensor], *, steps: int = STEPS, penalty: float = PENALTY, seed: int = 0
) -> Importance:
    """`loss` of a step's batch, a mean, computed by the model while a probe holds the gates. No weight changes."""
    if steps < 1 or penalty < 0:
        raise UserError(f"gates need 1 step or more and a penalty of 0 or more, not {steps} and {penalty:g}.")
    gates = LearnedGates(model, seed)
    optimizer = torch.optim.Adam(gates.a.values(), lr=RATE)
    training = model.training
    model.eval()  # no dropout: gates alone are to be uncertain
    for step in range(steps):
        with torch.enable_grad(), probe(model, gates=gates.drawn()) as looking:
            looking.recording = False
            total = loss(step) + penalty * torch.stack([chance_H.sum() for chance_H in gates.chances().values()]).sum()
            slopes = torch.autograd.grad(total, list(gates.a.values()), allow_unused=True)
        for a_H, slope_H in zip(gates.a.values(), slopes):
            a_H.grad = slope_H
        optimizer.step()
    model.train(training)
    scores = {name: tuple(chance_H.detach().float().cpu().tolist()) for name, chance_H in gates.chances().items()}
    opened = sum(chance > 0.5 for row in scores.values() for chance in row)
    heads = sum(map(len, scores.values()))
    title = f"learned gates: {opened} of {heads} heads stay open at a penalty of {penalty:g}"
    return Importance(title, "learned gates (L0)", 0, scores)
