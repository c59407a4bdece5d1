"""Every task by its name, and how a run or a public checkpoint is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from regard.core.errors import UserError
from regard.data.config import is_vector_file
from regard.runs.folder import Run, choose_device
from regard.runs.protocols import Predictor, PretrainedPredictor
from regard.runs.recipe import HUB, Recipe, typed_task
from regard.runs.task import TASKS

if TYPE_CHECKING:
    from regard.runs.pretrained import InitCheckpoint


def open_run(name: Path | str, device: str | None = None, assignments: Sequence[str] = (), weights: str = "") -> Predictor:
    """Open a run for what it was trained for; settings may choose another search, or another task that its weights allow.

    `weights` may be last, best, average or a checkpoint's name; `Run.weights` says what is taken by default.
    A Hugging Face folder is opened as it is, and so is a file of word vectors. A model on the hub is named hf:NAME, so that no
    mistyped folder is looked for there.
    """
    where = choose_device(device)
    if weights and (is_vector_file(name) or is_public(name)):
        raise UserError(f"--weights {weights} is for a run, and {name} is none and has one set of weights; leave it out.")
    if is_vector_file(name):
        from regard.tasks.word_vectors.predict import WordVectorModel

        return WordVectorModel.of_file(Path(name), assignments)
    if is_public(name):
        return _as_it_is(str(name).removeprefix(HUB), assignments, where)
    run = Run.open(name, weights)
    if typed_task(assignments) not in (None, run.recipe.task.name):
        if weights:
            raise UserError(f"--weights {weights} is for the task that {name} was trained for; leave one of the two out.")
        return _as_it_is(str(name), assignments, where)
    recipe = run.recipe_with(assignments)
    return TASKS[recipe.task.name].open(run, recipe, where)


def _as_it_is(name: str, assignments: Sequence[str], device: torch.device) -> PretrainedPredictor:
    from regard.runs.pretrained import (
        recipe_of,  # these two know every public format
        start_of,
    )

    start = start_of(name)
    return adopted(start, recipe_of(start, assignments), device)


def adopted(start: InitCheckpoint, recipe: Recipe, device: torch.device) -> PretrainedPredictor:
    """A checkpoint as it is, for the task of this recipe."""
    if (adopt := TASKS[recipe.task.name].adopt) is None:
        raise UserError(f"{start.name} cannot be opened for task {recipe.task.name} as it is; train from it with task.init_from.")
    return adopt(start, recipe, device)


def is_public(name: Path | str) -> bool:
    """A Hugging Face folder, or a name on its hub; anything else should be a run."""
    folder = Path(name)
    return str(name).startswith(HUB) or ((folder / "config.json").is_file() and not (folder / "recipe.toml").exists())
