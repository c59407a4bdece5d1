"""Long text as windows of equal length, each token's aim the token after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.counted import generator
from regard.data.packing import Packing, moved
from regard.errors import UserError


@dataclass(frozen=True)
class WindowBatch:
    ids_BL: Tensor
    next_BL: Tensor
    tokens: int
    documents: Packing | None = None

    def to(self, device: torch.device) -> WindowBatch:
        return moved(self, device)


@dataclass(frozen=True)
class Windows:
    """One flat array of token numbers, cut into windows that do not overlap; what is left over at the end is not used."""

    ids: np.ndarray
    length: int
    tokens: int  # of a batch
    seed: int
    fixed_shapes = True

    def __post_init__(self) -> None:
        if len(self) < 1:
            raise UserError(
                f"the text has {len(self.ids):,} tokens, fewer than one window of {self.length:,} and the token after it."
            )

    def __len__(self) -> int:
        return (len(self.ids) - 1) // self.length

    def plan(self, epoch: int) -> list[np.ndarray]:
        order = generator(self.seed, "shuffle", epoch).permutation(len(self))
        size = max(1, self.tokens // self.length)
        return [order[start : start + size] for start in range(0, len(order), size)]

    def count(self, rows: np.ndarray) -> int:
        return len(rows) * self.length

    def batch(self, rows: np.ndarray, epoch: int) -> WindowBatch:
        starts = rows[:, None] * self.length + np.arange(self.length + 1)
        windows = torch.from_numpy(self.ids[starts].astype(np.int64))
        return WindowBatch(windows[:, :-1].contiguous(), windows[:, 1:].contiguous(), self.count(rows))
