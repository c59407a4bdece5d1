"""The interface of an objective: it takes a model and a batch and returns a `Loss`. The training loop needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from regard.model.embedding import VocabularyHead


@dataclass(frozen=True)
class Loss:
    """The loss of a batch: sums, so that micro-batches and ranks add up, and the count to divide them by."""

    total: Tensor  # summed over `count` tokens or examples
    parts: dict[str, Tensor]  # further sums to report, over the same count
    count: int
    predicted_N: Tensor | None = None  # outside training: the label or the number predicted for each example


class Model(Protocol):
    """A model that an objective can train: hidden vectors, and a head that scores the vocabulary by them."""

    training: bool
    head: VocabularyHead

    def hidden(self, *inputs: Any) -> Tensor: ...


class Objective(Protocol):
    """A function from model and batch to loss."""

    def __call__(self, model: Any, batch: Any) -> Loss: ...
