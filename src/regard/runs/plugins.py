"""Plugins: a person's own Python files that register mixers, visibilities, positions, objectives, metrics, families or tasks.

A recipe that uses a part of a plugin names its file in `recipe.plugins`, and so does the run trained with it. Opening such a run
without the plugin is refused. A plugin is code: a run never loads one by itself, since a run may come from a stranger.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import UserError

SETTINGS = {
    "mixer": ("model", "mixer"),
    "visibility": ("model", "visibility"),
    "position": ("model", "position"),
    "family": ("model", "family"),
    "objective": ("objective", "name"),
    "task": ("task", "name"),
    "metric": None,
}
"""The kinds of parts that a plugin may register, and the setting that names one; a metric is reported without being named."""
REGISTERED: dict[tuple[str, str], str] = {}
"""From kind and name of each part to the name of the file that registered it."""


def load_plugin(path: Path | str) -> None:
    """Run the Python file at `path`, which calls `regard.register`; a file that was loaded before is not run again."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"--plugin {path} does not exist; give a Python file that calls regard.register.")
    module = f"regard_plugin_{path.stem}"
    if module in sys.modules and sys.modules[module].__file__ == str(path.resolve()):
        return
    spec = importlib.util.spec_from_file_location(module, path.resolve())
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise UserError(f"--plugin {path} is not a Python file; give one that ends in .py and calls regard.register.")
    found = importlib.util.module_from_spec(spec)
    sys.modules[module] = found  # dataclasses look their module up
    try:
        spec.loader.exec_module(found)
    except UserError:
        del sys.modules[module]
        raise
    except Exception as error:
        del sys.modules[module]
        raise UserError(
            f"--plugin {path} failed{_where(error, path)}: {type(error).__name__}: {error}. Correct that file."
        ) from error
    if path.name not in REGISTERED.values():
        raise UserError(f"--plugin {path} registers nothing; call regard.register.mixer, .visibility or another in it.")


def _where(error: Exception, path: Path) -> str:
    """Return the last line of the plugin that an error passed through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path.resolve())]
    return f" in line {lines[-1]}" if lines else ""


def plugins_used(tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the files of the registered parts that the settings of a recipe name."""
    used = set()
    for (kind, name), file in REGISTERED.items():
        section, key = SETTINGS[kind] or ("", "")
        said = str(tables.get(section, {}).get(key, "")).replace("-", "_")
        if re.search(rf"\b{re.escape(name.replace('-', '_'))}\b", said):
            used.add(file)
    return sorted(used)


def check_plugins(names: object, origin: str) -> None:
    """Refuse a recipe, or the recipe of a run, that names a plugin which is not loaded."""
    for name in names if isinstance(names, list) else ():
        if name not in REGISTERED.values():
            raise UserError(f"{origin} needs the plugin {name}, which is not loaded; add --plugin FOLDER/{name}.")
