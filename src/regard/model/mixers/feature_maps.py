"""Feature maps: vectors of positive numbers whose plain product stands for how much a query wants a key.

Attention by features never compares all queries with all keys: phi(q) . phi(k) replaces exp(q . k / sqrt K), so what all keys
hold can be summed before any query is known. Two maps:

    positive   Choromanski et al. 2021, lemma 1: for w drawn from a normal distribution, exp(x . y) is the mean of
               exp(w . x - |x|^2 / 2) exp(w . y - |y|^2 / 2). F draws of w are F features; the error falls as 1 / F. Drawn
               orthogonal to each other, K at a time (section 2.4), they err less than independent ones.
    relu       relu(x), and a little more than nothing (section 4.2 there; with elu + 1, Katharopoulos et al. 2020). It stands for
               no softmax. Most of what the Long Range Arena published as Performer is this one.

The papers subtract the largest exponent of a whole sequence, by which the future is felt in the past. Here each vector's features
are divided by its own largest and come with the logarithm of what they were divided by; sums reconcile these as they go.

Dims: B batch, H heads, L length, K head width, F features.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.rng import generator

FLOOR = 1e-12  # under the largest feature, which is 1: no query is without any key, however far all of them are
RELU_FLOOR = 1e-3


class Features(NamedTuple):
    phi_BHLF: Tensor
    scale_BHL: Tensor  # the features are exp(scale) times phi; no gradient passes, since phi has it


class FeatureMap(Protocol):
    def __call__(self, x_BHLK: Tensor) -> Features: ...

    def count(self, head_width: int) -> int: ...


class ReluFeatures:
    def __call__(self, x_BHLK: Tensor) -> Features:
        return Features(x_BHLK.relu() + RELU_FLOOR, x_BHLK.new_zeros(x_BHLK.shape[:-1]))

    def count(self, head_width: int) -> int:
        return head_width


class Drawn(nn.Module):
    """A module whose buffers are drawn by count, not learned: saved with the run, the same for all heads of an attention."""

    def __init__(self, name: str, redraw_every: int) -> None:
        super().__init__()
        self.name, self.redraw_every = name, redraw_every
        self.seed, self.number = 0, -1  # of the latest draw

    def draw(self, seed: int, number: int) -> None:
        raise NotImplementedError

    def renew(self, step: int) -> None:
        """Redraw by the number of the step, not of calls, so that a resumed run continues with the same draws."""
        if self.redraw_every and (number := (step - 1) // self.redraw_every) != self.number:
            self.draw(self.seed, number)


class PositiveFeatures(Drawn):
    def __init__(self, head_width: int, count: int, name: str, redraw_every: int = 0) -> None:
        super().__init__(name, redraw_every)
        self.register_buffer("directions_FK", torch.zeros(count, head_width))
        self.directions_FK: Tensor

    def forward(self, x_BHLK: Tensor) -> Features:
        rate = x_BHLK.shape[-1] ** -0.25
        directions_KF = self.directions_FK.to(x_BHLK.dtype).T * rate
        half_BHL1 = x_BHLK.square().sum(-1, keepdim=True) * (rate * rate / 2)
        exponents_BHLF = x_BHLK @ directions_KF - half_BHL1
        scale_BHL1 = exponents_BHLF.detach().amax(-1, keepdim=True)
        return Features((exponents_BHLF - scale_BHL1).exp() + FLOOR, scale_BHL1.squeeze(-1))

    def count(self, head_width: int) -> int:
        return len(self.directions_FK)

    @torch.no_grad()
    def draw(self, seed: int, number: int) -> None:
        """Into the same memory, which a recorded step goes on reading."""
        self.seed, self.number = seed, number
        count, head_width = self.directions_FK.shape
        self.directions_FK.copy_(torch.from_numpy(directions(count, head_width, seed, self.name, number)))


def directions(count: int, width: int, seed: int, name: str, number: int = 0, orthogonal: bool = True) -> np.ndarray:
    """directions_FK, each as if drawn from a normal distribution alone; any `width` in a row at right angles to each other."""
    chance = generator(seed, f"features/{name}", number)
    independent_FK = chance.standard_normal((count, width))
    if not orthogonal:
        return independent_FK
    whole = -(-count // width)
    turned_NKK, upper_NKK = np.linalg.qr(chance.standard_normal((whole, width, width)))
    turned_NKK *= np.sign(np.diagonal(upper_NKK, axis1=1, axis2=2))[:, None, :]  # or not all rotations would be as likely
    lengths_F1 = np.linalg.norm(independent_FK, axis=1, keepdims=True)
    return turned_NKK.reshape(-1, width)[:count] * lengths_F1


def renew_features(model: nn.Module, step: int) -> None:
    """Redraw what is drawn by count and due before this training step."""
    for module in model.modules():
        if isinstance(module, Drawn):
            module.renew(step)


def is_drawn(name: str) -> bool:
    """Return whether a tensor of a state dict is drawn, not learned, so that averaging two of them makes no sense."""
    return name.rpartition(".")[2] in ("directions_FK", "sample_key")
