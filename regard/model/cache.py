"""Keys and values kept between decoding steps, in memory allocated ahead.

All layers of a state move together, so the place to write and the part that is visible belong to one `Clock`. The place is a
tensor and the visible part grows in strides, so that a compiled step sees the same shapes for STRIDE tokens in a row; the
causal visibility hides what is not written yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

STRIDE = 32


@dataclass
class Clock:
    position: Tensor  # where the next token is written, shape (1,)
    count: int = 0  # the same number, known to the host
    visible: int = STRIDE  # how many places the kernel looks at

    def tick(self) -> None:
        self.count += 1
        self.position += 1

    def reserve(self) -> None:
        """Before a step: make room for one more token."""
        if self.count >= self.visible:
            self.visible += STRIDE


class Cache:
    """One attention's keys and values over B rows; grows by doubling."""

    def __init__(self, clock: Clock, batch: int, heads: int, head_width: int, like: Tensor) -> None:
        self.clock = clock
        self.k_BHMK = like.new_zeros(batch, heads, STRIDE, head_width)
        self.v_BHMK = torch.zeros_like(self.k_BHMK)

    def reserve(self) -> None:
        """Host-side, outside the compiled step: keep room for what is visible."""
        if self.k_BHMK.shape[2] < self.clock.visible:
            self.k_BHMK = torch.cat([self.k_BHMK, torch.zeros_like(self.k_BHMK)], 2)
            self.v_BHMK = torch.cat([self.v_BHMK, torch.zeros_like(self.v_BHMK)], 2)

    def append(self, k_BHLK: Tensor, v_BHLK: Tensor) -> tuple[Tensor, Tensor]:
        """Write one new token and return everything visible."""
        self.k_BHMK.index_copy_(2, self.clock.position, k_BHLK.to(self.k_BHMK.dtype))
        self.v_BHMK.index_copy_(2, self.clock.position, v_BHLK.to(self.v_BHMK.dtype))
        return self.k_BHMK[:, :, : self.clock.visible], self.v_BHMK[:, :, : self.clock.visible]

    def select(self, rows: Tensor) -> None:
        self.k_BHMK, self.v_BHMK = self.k_BHMK.index_select(0, rows), self.v_BHMK.index_select(0, rows)
