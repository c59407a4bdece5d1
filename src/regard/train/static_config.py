"""The `[train]` section of a recipe for word vectors: no optimizer to choose, no precision, and no steps but by epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class StaticConfig:
    epochs: int = 5  # times through the text, or through the counts
    learning_rate: float = 0.025  # at the beginning
    schedule: Literal["linear", "constant"] = "linear"  # down to nothing, or as it is; AdaGrad finds its own way down
    batch: int = 1024  # words, or counts, that are stepped on at once
    threads: int = 0  # 0: as many as there are cores; the result is the same with any number
    seed: int = 1
    log_every: int = 200  # steps
    checkpoint_every: int = 5000  # steps
    keep: int = 2  # checkpoints

    # What other trainings choose, and what there is nothing to choose of here.
    precision, shard, average, best = "fp32", False, 1, "nll"

    def __post_init__(self) -> None:
        for key in ("epochs", "batch", "log_every", "checkpoint_every", "keep"):
            if getattr(self, key) < 1:
                raise UserError(f"train.{key}={getattr(self, key)} must be at least 1.")
        if not 0 <= self.threads <= 1024:
            raise UserError(f"train.threads={self.threads} must be from 0 (as many as there are cores) to 1,024.")
        if not 0 < self.learning_rate < float("inf"):
            raise UserError(f"train.learning_rate={self.learning_rate} must be a number above 0.")
