"""Layers of forecasting models.

InstanceNorm (RevIN; Kim et al. 2022): every window loses its own level, and its own spread, before a model reads it, and what the
model forecasts gets them back. So a model that learned at one level works at another. `last` takes the last value away, as
NLinear does; `standard` the mean, and divides by the standard deviation; `mean` divides by the mean absolute value and takes
nothing away, as counts need it. With `affine`, a scale and a shift are learned for each channel in between.

Decomposition (Wu et al. 2021, equation 1): the trend is a moving average whose ends are repeated; the rest is called seasonal.

FastDropout: dropout (Srivastava et al. 2014) with cheaper random numbers on a CPU.

TokenBatchNorm: batch normalisation (Ioffe & Szegedy 2015) of each feature over all tokens of a batch, as PatchTST has it.

Dims: B batch, L look-back, H horizon, C channels, P patch length, N patches, D width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.layers import without_autocast
from regard.model.series import Normalisation


class Level(NamedTuple):
    loc_B1C: Tensor
    scale_B1C: Tensor


class InstanceNorm(nn.Module):
    EPSILON = 1e-5

    def __init__(self, kind: Normalisation, channels: int = 0, affine: bool = False) -> None:
        super().__init__()
        self.kind = kind
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None

    def extra_repr(self) -> str:
        return self.kind

    def forward(self, past_BLC: Tensor) -> tuple[Tensor, Level]:
        """Return the window in its own units, and what turns a forecast back."""
        with torch.no_grad():
            x_BLC, ones_B1C = past_BLC.float(), torch.ones_like(past_BLC[:, :1], dtype=torch.float32)
            level = Level(torch.zeros_like(ones_B1C), ones_B1C)
            if self.kind == "last":
                level = Level(x_BLC[:, -1:], ones_B1C)
            elif self.kind == "standard":
                deviation_B1C = (x_BLC.var(1, keepdim=True, correction=0) + self.EPSILON).sqrt()
                level = Level(x_BLC.mean(1, keepdim=True), deviation_B1C)
            elif self.kind == "mean":
                mean_B1C = x_BLC.abs().mean(1, keepdim=True)
                level = Level(level.loc_B1C, torch.where(mean_B1C > 0, mean_B1C, 1.0))
        found_BLC = (past_BLC - level.loc_B1C) / level.scale_B1C
        if self.weight is not None and self.bias is not None:
            found_BLC = found_BLC * self.weight + self.bias
        return found_BLC, level

    def back(self, future: Tensor, level: Level) -> Tensor:
        """Return future_BHC or future_BHCQ in the units of the data."""
        if self.weight is not None and self.bias is not None:
            shape = (-1, 1) if future.dim() == 4 else (-1,)
            weight = self.weight.view(shape)
            future = (future - self.bias.view(shape)) / (weight + self.EPSILON**2)
        scale, loc = (part[..., None] if future.dim() == 4 else part for part in (level.scale_B1C, level.loc_B1C))
        return future * scale + loc

    def affine_back(self, level: Level) -> tuple[Tensor, Tensor]:
        """Return loc_B1C and scale_B1C > 0 so that `back` of x is loc + scale x, the sign of the learned scale aside."""
        loc, scale = level.loc_B1C, level.scale_B1C
        if self.weight is not None and self.bias is not None:
            scale = scale / (self.weight + self.EPSILON**2)
            loc = loc - scale * self.bias
        return loc, scale.abs()


def moving_average(x_BCL: Tensor, kernel: int) -> Tensor:
    """Return the mean of `kernel` values around each time, the first and the last value being repeated at the ends."""
    before = (kernel - 1) // 2
    padded = torch.cat(
        [x_BCL[..., :1].expand(*x_BCL.shape[:-1], before), x_BCL, x_BCL[..., -1:].expand(*x_BCL.shape[:-1], kernel - 1 - before)],
        -1,
    )
    return F.avg_pool1d(padded, kernel, 1)


class SeriesLinear(nn.Module):
    """y_BCN = W x_BCL + b: one matrix for all channels, or one for each."""

    def __init__(self, inputs: int, outputs: int, channels: int = 0) -> None:
        """With `channels`, each has a matrix of its own."""
        super().__init__()
        shape = (channels, outputs, inputs) if channels else (outputs, inputs)
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(shape[:-1]))

    def extra_repr(self) -> str:
        own = f" of each of {len(self.weight)} channels" if self.weight.dim() == 3 else ""
        return f"L={self.weight.shape[-1]} -> {self.weight.shape[-2]}{own}"

    def draw(self, generator: torch.Generator) -> None:
        """Draw weights and biases from a uniform distribution up to 1 / sqrt(inputs), as PyTorch's linear layers begin."""
        most = self.weight.shape[-1] ** -0.5
        for parameter in (self.weight, self.bias):
            nn.init.uniform_(parameter, -most, most, generator=generator)

    def forward(self, x_BCL: Tensor) -> Tensor:
        with without_autocast(x_BCL.device.type):  # there is one product, and its inputs are the data
            if self.weight.dim() == 2:
                return F.linear(x_BCL, self.weight, self.bias)
            found_CBN = torch.bmm(x_BCL.transpose(0, 1), self.weight.transpose(1, 2))
            return found_CBN.transpose(0, 1) + self.bias


def count_patches(lookback: int, patch: int, stride: int, padded: bool) -> int:
    """Return how many patches a window has; `padded` repeats its last value for one more."""
    return (lookback - patch) // stride + 1 + padded


def cut_patches(x_BCL: Tensor, patch: int, stride: int, padded: bool) -> Tensor:
    """Return patches_BCNP; where they do not fill the window, `padded` ones start at its begin, others end at its end."""
    if padded:
        x_BCL = torch.cat([x_BCL, x_BCL[..., -1:].expand(*x_BCL.shape[:-1], stride)], -1)
    else:
        x_BCL = x_BCL[..., (x_BCL.shape[-1] - patch) % stride :]
    return x_BCL.unfold(-1, patch, stride)


class FastDropout(nn.Module):
    """Dropout whose mask takes 16 random bits a number on a CPU, where torch draws one number after the other.

    The probability is rounded to 2^-16, and what is kept is divided by what is left of exactly that. Elsewhere, and in a compiled
    graph, it is torch's own.
    """

    STEPS = 2**16

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def forward(self, x: Tensor) -> Tensor:
        dropped = round(self.p * self.STEPS)
        if not self.training or not 0 < dropped < self.STEPS or x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p, self.training)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.long).random_(-(2**63), None)
        kept = words.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - self.STEPS // 2
        return x * kept * (self.STEPS / (self.STEPS - dropped))


def with_fast_dropout(model: nn.Module) -> None:
    """Replace torch's dropout in all parts of a model."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, FastDropout(child.p))


class TokenBatchNorm(nn.Module):
    """Normalise each feature over the tokens of a batch; outside training by running averages."""

    KEPT = 0.9  # of the running averages in a step

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean_D", torch.zeros(width))
        self.register_buffer("variance_D", torch.ones(width))
        self.mean_D: Tensor
        self.variance_D: Tensor

    def forward(self, x_BMD: Tensor) -> Tensor:
        x_TD, running = x_BMD.flatten(0, -2).float(), (self.mean_D, self.variance_D)
        found = F.batch_norm(x_TD, *running, self.weight, self.bias, self.training, 1 - self.KEPT, self.eps)
        return found.view(x_BMD.shape).to(x_BMD.dtype)
