"""Rotary positions: pairs of coordinates of queries and keys are turned by an angle that grows with the position.

Su et al. 2021, "RoFormer", section 3.2.2: the product of a query at m and a key at n then depends on their content and on m - n.
The angle of pair i is position * base^(-2i/K). As in the public LLaMA checkpoints, coordinate i is paired with i + K/2; the
paper pairs neighbours, which is the same up to the order of coordinates. Nothing is learned. Cached keys stay rotated by their
own position, so decoding rotates only the newest token.

Scaling lets a trained model read longer texts. `linear` (Chen et al. 2023) divides every angle by a factor, as if positions lay
closer together. `llama3` (Llama 3.1) divides only the slow ones: pairs that turn fewer than `rotary_low` times within the
context of training are divided, pairs that turn more than `rotary_high` times are left, and those between go over smoothly.

Dims: B batch, H heads, L length, K head width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.core.config import refuse_unused
from regard.core.errors import UserError
from regard.model.position.base import Placement, Position
from regard.model.visibility import View

BASE = 10_000.0


@dataclass(frozen=True, kw_only=True)
class Llama3Settings:
    """Recipe keys of model.rotary_scaling=llama3."""

    rotary_low: float = 1.0  # turns within rotary_context; pairs with fewer are divided
    rotary_high: float = 4.0  # pairs with more are left
    rotary_context: int = 8192  # tokens of a text in training, before scaling


@dataclass(frozen=True, kw_only=True)
class RotarySettings(Llama3Settings):
    """Recipe keys of model.position=rotary."""

    rotary_base: float = BASE  # of the slowest angle; larger for longer texts (LLaMA 3: 500000)
    rotary_scaling: Literal["none", "linear", "llama3"] = "none"
    rotary_factor: float = 1.0  # by which scaling divides angles

    def check_rotary(self) -> None:
        if not self.rotary_base > 1:
            raise UserError(f"model.rotary_base={self.rotary_base} must be above 1, such as {BASE:.0f}.")
        refuse_unused(self, RotarySettings, "position", "rotary")
        refuse_unused(self, Llama3Settings, "rotary_scaling", "llama3")
        if not self.rotary_factor >= 1 or (self.rotary_scaling != "none") != (self.rotary_factor > 1):
            raise UserError(
                f"model.rotary_factor={self.rotary_factor} does not suit model.rotary_scaling={self.rotary_scaling}; scaling "
                "divides by a factor above 1, such as 8, and none leaves it at 1."
            )
        if not 0 < self.rotary_low < self.rotary_high or self.rotary_context < 1:
            raise UserError("model.rotary_low must be above 0 and below model.rotary_high, and model.rotary_context at least 1.")


class Rotary(Position):
    def __init__(self, head_width: int, settings: RotarySettings) -> None:
        super().__init__()
        self.head_width, self.settings = head_width, settings

    def rates(self, device: torch.device) -> Tensor:
        """Return rate_K, the angle in radians by which each of K / 2 pairs turns from one position to the next."""
        s, even_K = self.settings, torch.arange(0, self.head_width, 2, device=device)
        rate_K = s.rotary_base ** (-even_K.double() / self.head_width)
        if s.rotary_scaling == "linear":
            rate_K = rate_K / s.rotary_factor
        elif s.rotary_scaling == "llama3":
            turns_K = s.rotary_context * rate_K / (2 * math.pi)
            kept_K = ((turns_K - s.rotary_low) / (s.rotary_high - s.rotary_low)).clamp(0, 1)
            rate_K = rate_K * (kept_K + (1 - kept_K) / s.rotary_factor)
        return rate_K.float()

    def over(self, view: View) -> Placement:
        at_BL, _ = view.positions()
        angle_B1LK = (at_BL[..., None].float() * self.rates(at_BL.device)).repeat(1, 1, 2)[:, None]
        return _Rotation(angle_B1LK.cos(), angle_B1LK.sin())


class _Rotation(Placement):
    rotates = True

    def __init__(self, cos_B1LK: Tensor, sin_B1LK: Tensor) -> None:
        self.cos_B1LK, self.sin_B1LK = cos_B1LK, sin_B1LK

    def rotate(self, x_BHLK: Tensor) -> Tensor:
        first, second = x_BHLK.chunk(2, -1)
        turned_BHLK = torch.cat([-second, first], -1)
        return x_BHLK * self.cos_B1LK.to(x_BHLK.dtype) + turned_BHLK * self.sin_B1LK.to(x_BHLK.dtype)
