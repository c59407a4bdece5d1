"""Every task by its name, and how a run or a public checkpoint is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.tasks import classify, translate, write
from regard.tasks.exchange import recipe_of
from regard.tasks.run import Run, choose_device
from regard.tasks.start import start_of
from regard.tasks.task import Answers, Task
from regard.tasks.writer import Writer

TASKS: dict[str, Task] = {"translate": translate.TASK, "write": write.TASK, "classify": classify.TASK}
HUB = "hf:"


def open_run(name: Path | str, device: str | None = None, assignments: Sequence[str] = ()) -> Answers:
    """What a run was trained for, ready to be done; settings may choose another search.

    A Hugging Face folder is opened as it is. A model on the hub is named hf:NAME, so that no mistyped folder is looked for there.
    """
    folder = Path(name)
    public = (folder / "config.json").is_file() and not (folder / "recipe.toml").exists()
    if public or str(name).startswith(HUB):
        start = start_of(str(name).removeprefix(HUB))
        return Writer.of_start(start, recipe_of(start, assignments), choose_device(device))
    run = Run.open(folder)
    recipe = run.recipe_with(assignments)
    return TASKS[recipe.task.name].open(run, recipe, choose_device(device))
