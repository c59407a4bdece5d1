"""What a model is trained for: an objective takes model and batch and returns a Loss. The loop knows no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn


@dataclass(frozen=True)
class Loss:
    total: Tensor  # summed over what is counted, so that micro-batches and ranks add up
    parts: dict[str, Tensor]  # what to report beside it, each a sum over the same count
    count: int


class Objective(Protocol):
    def __call__(self, model: nn.Module, batch: Any) -> Loss: ...
