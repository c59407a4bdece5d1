"""What to type next, once a run is there: every kind is asked, and looked into, in its own way."""

from __future__ import annotations

from pathlib import Path

from regard.recipe import Recipe

TEXT = '"..."'
ASKED = {
    "answer": "$'QUESTION\\tTEXT'",
    "masked": '"... [MASK] ..."',
    "caption": "IMAGE.png",
    "words": "WORD",
}  # by task or objective
WRITES = ("translate", "reply", "write", "caption")
READS = ("classify", "tag", "fill", "answer")


def to_try(recipe: Recipe, folder: Path) -> str:
    return f"regard predict {folder} {_asked(recipe)}"


def to_look(recipe: Recipe, folder: Path) -> str | None:
    """None where lens has nothing to draw for a single text."""
    task, look = recipe.task.name, f"regard lens {folder} {_asked(recipe)}"
    if getattr(recipe.model, "attention", None) == "none" or recipe.model.family == "elmo":
        return None
    if task in WRITES or recipe.model.family == "hierarchical":
        return look
    return f"{look} --show weights" if task in READS else None


def _asked(recipe: Recipe) -> str:
    return ASKED.get(recipe.task.name) or ASKED.get(recipe.objective.name, TEXT)
