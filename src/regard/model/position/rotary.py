"""Rotary positions: pairs of coordinates of queries and keys are turned by an angle that grows with the position.

Su et al. 2021, "RoFormer", section 3.2.2: the product of a query at m and a key at n then depends on their content and on m - n.
The angle of pair i is position * base^(-2i/K). As in the public LLaMA checkpoints, coordinate i is paired with i + K/2; the
paper pairs neighbours, which is the same up to the order of coordinates. Nothing is learned. Cached keys stay rotated by their
own position, so decoding rotates only the newest token.

Dims: B batch, H heads, L length, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.config import refuse_unused
from regard.core.errors import UserError
from regard.model.position.base import Placement, Position
from regard.model.visibility.mask import View

BASE = 10_000.0


@dataclass(frozen=True, kw_only=True)
class RotarySettings:
    """Recipe keys of model.position=rotary."""

    rotary_base: float = BASE  # of the slowest angle; larger for longer texts (LLaMA 3: 500000)

    def check_rotary(self) -> None:
        if not self.rotary_base > 1:
            raise UserError(f"model.rotary_base={self.rotary_base} must be above 1, such as {BASE:.0f}.")
        refuse_unused(self, RotarySettings, "position", "rotary")


class Rotary(Position):
    def __init__(self, head_width: int, base: float = BASE) -> None:
        super().__init__()
        self.head_width, self.base = head_width, base

    def over(self, view: View) -> Placement:
        at_BL, _ = view.positions()
        even_K = torch.arange(0, self.head_width, 2, device=at_BL.device)
        rate_K = (self.base ** (-even_K.double() / self.head_width)).float()
        angle_B1LK = (at_BL[..., None].float() * rate_K).repeat(1, 1, 2)[:, None]
        return _Rotation(angle_B1LK.cos(), angle_B1LK.sin())


class _Rotation(Placement):
    rotates = True

    def __init__(self, cos_B1LK: Tensor, sin_B1LK: Tensor) -> None:
        self.cos_B1LK, self.sin_B1LK = cos_B1LK, sin_B1LK

    def rotate(self, x_BHLK: Tensor) -> Tensor:
        first, second = x_BHLK.chunk(2, -1)
        turned_BHLK = torch.cat([-second, first], -1)
        return x_BHLK * self.cos_B1LK.to(x_BHLK.dtype) + turned_BHLK * self.sin_B1LK.to(x_BHLK.dtype)
