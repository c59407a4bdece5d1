"""Early checks of the names and settings of a command, before torch is imported, which takes seconds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from regard.core.errors import UserError
from regard.runs.recipe import named_tables, read_run_toml, tables_of, typed_task, without_model

HUB = "hf:"  # before the name of a model on the hub, so that no mistyped folder is looked for there
RECIPE = "recipe.toml"  # of a run


def check_recipe(name: str, settings: Sequence[str]) -> None:
    """Refuse a recipe that does not exist, and settings that it does not have, as far as no model is needed to know them."""
    if "WORLD_SIZE" not in os.environ:  # of processes that train together one tells, once they have met
        without_model(named_tables(name, settings))


def check_run(name: Path | str, settings: Sequence[str] = ()) -> None:
    """Refuse a run that does not exist, and settings that it does not have; a model on the hub is looked up later."""
    path = Path(name)
    if str(name).startswith(HUB):
        return
    must_exist(path)
    if (path / RECIPE).is_file() and typed_task(settings) is None:  # for another task there are other settings
        without_model(tables_of(read_run_toml(path / RECIPE), str(path / RECIPE), settings))


def must_exist(run: Path) -> None:
    if not run.exists():
        raise UserError(f"{run} does not exist; give a run, such as 'regard train translate' makes, or hf:NAME.")
