"""What a model is trained for: an objective takes model and batch and returns a Loss. The loop knows no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from regard.model.heads import VocabularyHead


@dataclass(frozen=True)
class Loss:
    total: Tensor  # summed over what is counted, so that micro-batches and ranks add up
    parts: dict[str, Tensor]  # what to report beside it, each a sum over the same count
    count: int
    said_N: Tensor | None = None  # outside training: the label or the number that each example was given


class Model(Protocol):
    """What an objective asks of a model: vectors, and the head that scores words by them."""

    training: bool
    head: VocabularyHead

    def hidden(self, *inputs: Any) -> Tensor: ...


class Objective(Protocol):
    def __call__(self, model: Any, batch: Any) -> Loss: ...
