"""Every task by its name, and how a run is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.tasks import translate, write
from regard.tasks.run import Run, choose_device
from regard.tasks.task import Answers, Task

TASKS: dict[str, Task] = {"translate": translate.TASK, "write": write.TASK}


def open_run(folder: Path | str, device: str | None = None, assignments: Sequence[str] = ()) -> Answers:
    """What the run in this folder was trained for, ready to be done; settings may choose another search."""
    run = Run.open(folder)
    recipe = run.recipe_with(assignments)
    return TASKS[recipe.task.name].open(run, recipe, choose_device(device))
