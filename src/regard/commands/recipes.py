"""`regard recipes`: what can be trained, from what recipes say about themselves. No model is built, so torch is not needed."""

from __future__ import annotations

from typing import Any

from regard.core.config import build
from regard.runs.recipe import About, TaskConfig, builtin_names, named_tables
from regard.runs.task import TASKS

COUNTED_IN_WORDS = ("word", "spaced", "character")  # of these there may be fewer than planned; of pieces there are not


def recipe_rows() -> list[dict[str, Any]]:
    """Return a row for each built-in recipe, as JSON has it; no parameters where they depend on a checkpoint."""
    return [_row(name) for name in builtin_names()]


def recipe_table() -> str:
    """Return a table of all built-in recipes: name, title, size, time, score and command."""
    rows, lines = recipe_rows(), list[str]()
    margin = 1 + max(len(row["name"]) for row in rows)
    for row in rows:
        about = (row["title"], f"{_size(row)} · {row['minutes']:g} min on {row['hardware']} · {row['score']}", row["command"])
        lines += [f"{row['name'] if line is about[0] else '':<{margin}} {line}" for line in about] + [""]
    return "\n".join(lines).rstrip()


def _row(name: str) -> dict[str, Any]:
    tables = named_tables(name)
    about, task = build(About, tables["recipe"], "recipe"), build(TaskConfig, tables["task"], "task")
    text: Any = build(TASKS[task.name].text, tables["text"], "text")
    return {
        "name": about.name,
        "task": task.name,
        "title": about.title,
        "paper": about.paper,
        "rows": list(about.rows),
        "command": about.command,
        "minutes": about.minutes,
        "hardware": about.hardware,
        "score": about.score,
        "parameters": about.parameters,
        "at_most": text.tokenizer in COUNTED_IN_WORDS,
    }


def _size(row: dict[str, Any]) -> str:
    if (parameters := row["parameters"]) is None:
        return "by what it starts from"
    most = "up to " if row["at_most"] else ""
    return f"{most}{parameters / 1e6:.1f}M parameters" if parameters >= 1e5 else f"{most}{parameters / 1e3:.0f}k parameters"
