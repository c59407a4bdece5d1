"""What a training is told to be, in a few lines: the recipe's title, and what the command changed in it."""

from __future__ import annotations

from collections.abc import Sequence

from regard.config import as_typed
from regard.recipe import Recipe, named_tables


def summary_lines(name: str, settings: Sequence[str], recipe: Recipe) -> list[str]:
    """The recipe `name` with these settings typed, which made `recipe`; each setting beside what the recipe has."""
    before = named_tables(name)
    keys = dict.fromkeys(setting.partition("=")[0].strip() for setting in settings)
    title = f": {recipe.recipe.title}" if recipe.recipe.title else ""
    return [f"recipe {recipe.recipe.name}{title}", *(f"  {_change(key, before, recipe)}" for key in keys)]


def _change(key: str, before: dict[str, dict[str, object]], recipe: Recipe) -> str:
    section, _, field = key.partition(".")
    now = f"{key}={_shown(getattr(getattr(recipe, section), field))}"
    return f"{now} (the recipe has {_shown(before[section][field])})" if field in before[section] else now


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else as_typed(value)
