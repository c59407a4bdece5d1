"""What a task is to everything around it: how its data is prepared, what is trained on it, and what a trained run answers.

Training, resuming, the cost ledger, the model card, `predict` and `evaluate` are written once, against these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # to name them: a run is opened without what trains one
    from torch import nn

    from regard.core.terminal import Emit
    from regard.data.loader import Source
    from regard.model.flops import Part
    from regard.objectives.base import Objective
    from regard.runs.recipe import Recipe
    from regard.training.loop import Validate


class Result(Protocol):
    """Scores on a test set."""

    @property
    def outputs(self) -> Sequence[str]:
        """What the model said, a line each; empty where it was only asked how likely the test set is."""
        ...

    def lines(self) -> list[str]: ...

    def as_dict(self) -> dict[str, Any]: ...


class Vocabulary(Protocol):
    """What the model's numbers stand for: pieces of text, or labels. It is kept and sealed with the run."""

    def __len__(self) -> int: ...

    def save(self, path: Path) -> None: ...


class Prepared(Protocol):
    """A recipe and its data, read, checked and numbered: all that a training needs. Nothing has been written."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def test(self) -> Any:
        """What to score in the end; None or empty where there is nothing."""
        ...

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """By the name of their file in the run."""
        ...

    @property
    def unit(self) -> str:
        """What the loss is counted in."""
        ...

    @property
    def metric(self) -> str:
        """The figure of validation that says which weights are best, where train.best=auto; of the loss it is "nll"."""
        ...

    def model(self) -> nn.Module: ...

    def objective(self) -> Objective: ...

    def source(self, *, packed: bool) -> Source:
        """Of the training's batches."""
        ...

    def validator(self, objective: Objective) -> Validate: ...

    def example(self) -> tuple[Part, int]:
        """The model's parts for one typical example, and how much of the unit that is."""
        ...

    def amounts(self) -> dict[str, str]:
        """How much there is to train on and to validate with, for people: `train` and `valid`."""
        ...

    def fingerprints(self) -> dict[str, str]:
        """Of the same two: what a run must be continued with."""
        ...


class Predictor(Protocol):
    """A trained run, ready to do what it was trained for."""

    model: Any

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """Tell pieces of output as they are ready, line ends included.

        The first of the texts is number `first` of many that come; None: these are all there are.
        """
        ...

    def evaluate(self, test: Any) -> Result: ...


class PretrainedPredictor(Predictor, Protocol):
    """A public checkpoint as it is, from which a run can be made: its weights are the model's."""

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """By the name of their file in the run."""
        ...
