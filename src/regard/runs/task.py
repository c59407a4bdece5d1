"""A task as one value: the sections of its recipe, the functions that train and open it, and how people use it.

`regard/tasks/NAME/__init__.py` declares `TASK`, for recipes with `task.name=NAME`. A declaration imports no torch, so that a
mistyped setting is refused at once; its functions are named by `lazy` and imported by their first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.config import LazyRegistry
from regard.families import FAMILIES
from regard.text.config import TextConfig
from regard.training.config import TrainConfig

if TYPE_CHECKING:  # for annotations: a declaration imports none of these
    import torch

    from regard.families.base import Family
    from regard.families.flops import Part
    from regard.runs.folder import Run, Say
    from regard.runs.prepared import Prepared
    from regard.runs.pretrained import InitCheckpoint
    from regard.runs.protocols import Predictor, PretrainedPredictor, Result
    from regard.runs.recipe import Recipe, Tables
    from regard.training.progress import Interrupt, Progress


def lazy(place: str) -> Callable[..., Any]:
    """Return a function that imports `module:attribute` when it is called, and calls that."""

    def call(*arguments: Any, **named: Any) -> Any:
        module, _, attribute = place.partition(":")
        return reduce(getattr, attribute.split("."), import_module(module))(*arguments, **named)  # type: ignore[operator]

    return call


@dataclass(frozen=True)
class Trainer:
    """A training loop of a task's own, for models whose steps are too small for the common one."""

    train: Callable[[Any, Run, Say, Interrupt], Progress]
    estimate: Callable[[Any], list[str]]  # lines about its cost


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task: everything that depends on `task.name` is a field of this value."""

    name: str

    # Sections of its recipe.
    data: type
    family: str  # the default
    needs: tuple[set[str], ...]  # capabilities: a family needs all of one of these sets ...
    excludes: set[str] = field(default_factory=set)  # ... and none of these
    objectives: tuple[str, ...]  # the first is the default
    text: type = TextConfig
    train: type = TrainConfig
    freezes: bool = False  # has it a head to train on top of a frozen body (task.freeze)?

    # Functions.
    prepare: Callable[[Recipe, Path | None, Say], Prepared]
    """Read and check the data, with the vocabularies of this folder if it has any. Writes nothing."""
    read_test: Callable[[Recipe], Any]
    open: Callable[[Run, Recipe, torch.device], Predictor]
    adopt: Callable[[InitCheckpoint, Recipe, torch.device], PretrainedPredictor] | None = None
    """Open a public checkpoint without training."""
    adopted_settings: Callable[[InitCheckpoint], Tables] | None = None
    """Return the recipe settings that such a checkpoint brings, or that suit it."""
    heads: tuple[str, ...] = ()
    """Modules of a checkpoint that were trained for this task; one of them is needed to open it without training."""
    trainer: Trainer | None = None
    parts: Callable[[Run, Recipe, int], Part] | None = None
    """Count a trained run's model for a text of this many tokens, if it has other heads than its family's usual ones."""
    compare: Callable[[Any, Any, Any, torch.device], Result] | None = None
    """Add to the scores of a predictor those of the model it was distilled from."""

    # Use.
    metrics: tuple[str, ...] = ()  # that `regard prune` plots: the first of these that `evaluate` reports
    lower_is_better: bool = False
    has_outputs: bool = True  # does `evaluate` give a line of text for each example?
    draws_scores: bool = False  # does `evaluate` draw a picture?
    single_texts: bool = True  # is a test set made of single texts, rather than of running text?
    test_hint: str = ""  # what else data.test may be, behind "FILE"
    prompt: str = '"..."'  # what is typed behind `regard predict RUN`
    prompts: Mapping[str, str] = field(default_factory=dict)  # the same for some objectives
    continues: bool = False  # do its models continue a prompt, by the settings of [decode] that only such a model has?
    lens: str | None = None  # options of `regard lens RUN TEXT` that suit any model of this task; None where there are none
    scored_on: str = "what the model says"  # by default, in studio
    exports: tuple[str, ...] = ("bert", "electra")  # families that can be written as a Hugging Face folder
    export_files: Callable[[Recipe, Any], dict[str, str]] | None = None  # and what is written beside their weights
    export_settings: Callable[[Run, dict[str, Any]], dict[str, Any]] | None = None
    """(run, settings of its model) -> the same with those that its data decided."""
    export_beside: tuple[str, ...] = ()  # files of a run that go with it

    def takes(self, family: Family) -> bool:
        """Return whether models of this family can be trained for this task."""
        return any(needed <= family.capabilities for needed in self.needs) and not self.excludes & family.capabilities

    def families(self) -> list[str]:
        """List the names of all families that it takes, the default first. Imports every family."""
        return [self.family, *(name for name in FAMILIES if name != self.family and self.takes(FAMILIES[name]))]


_packages = sorted(path.parent.name for path in (Path(__file__).parents[1] / "tasks").glob("*/__init__.py"))
TASKS: LazyRegistry[Task] = LazyRegistry({name: f"regard.tasks.{name}:TASK" for name in _packages})
"""Tasks by name: each package in `regard.tasks`, and tasks that were registered. A task is imported when it is looked up."""
