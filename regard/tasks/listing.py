"""Tables for people: the recipes, and a model as a tree of parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.model.count import Part
from regard.model.pattern import parse_visibility
from regard.model.visibility import causal
from regard.recipe import Recipe, load_recipe
from regard.tasks.cost import TYPICAL, model_tree
from regard.tasks.run import Run
from regard.tasks.translator import Tokenizers


def recipe_rows(recipes: Sequence[Recipe]) -> list[dict[str, Any]]:
    return [
        {
            "name": r.recipe.name,
            "task": r.task.name,
            "title": r.recipe.title,
            "paper": r.recipe.paper,
            "rows": list(r.recipe.rows),
            "command": r.recipe.command,
            "minutes": r.recipe.minutes,
            "hardware": r.recipe.hardware,
            "score": r.recipe.score,
            "parameters": model_tree(r).parameters,
        }
        for r in recipes
    ]


def recipe_table(recipes: Sequence[Recipe]) -> str:
    lines = []
    for row in recipe_rows(recipes):
        lines += [
            f"{row['name']:<18} {row['title']}",
            f"{'':<18} {row['parameters'] / 1e6:.1f}M parameters · {row['minutes']:g} min on {row['hardware']} · {row['score']}",
            f"{'':<18} {row['command']}",
            "",
        ]
    return "\n".join(lines).rstrip()


def explain_tree(target: str, settings: Sequence[str]) -> str:
    """Every part with its shape in our letters, parameters, operations for a typical pair, and file."""
    recipe, tree = _tree(target, settings)
    rows = [("  " * depth + part.name, part.shape, part) for depth, part in tree.walk()]
    first, second = (max(len(row[n]) for row in rows) + 2 for n in (0, 1))  # type: ignore[arg-type]
    lines = [
        f"{recipe.recipe.title or recipe.recipe.name}: {recipe.recipe.paper}",
        "B batch, L target length, M source length, D width, H heads, K head width, F feed-forward width, V vocabulary",
        "",
        f"{'part':<{first}}{'shape':<{second}}{'parameters':>14}{'MFLOP':>10}  file",
    ]
    lines += [f"{n:<{first}}{s:<{second}}{p.parameters:>14,}{p.flops / 1e6:>10,.1f}  regard/{p.file}" for n, s, p in rows]
    lines += ["", f"operations: forward, one pair of {TYPICAL} + {TYPICAL} tokens; training costs three times as much"]
    seen, model = parse_visibility(recipe.model.visibility), recipe.model
    lines += [f"visibility: encoder {seen} & padding, decoder {causal & seen}; mixer: {model.mixer}; position: {model.position}"]
    return "\n".join(lines)


def explain_rows(target: str, settings: Sequence[str]) -> dict[str, Any]:
    _, tree = _tree(target, settings)
    return _as_dict(tree)


def _as_dict(part: Part) -> dict[str, Any]:
    own = {
        "name": part.name,
        "shape": part.shape,
        "parameters": part.parameters,
        "flops": part.flops,
        "file": f"regard/{part.file}",
    }
    return own | ({"parts": [_as_dict(child) for child in part.children]} if part.children else {})


def _tree(target: str, settings: Sequence[str]) -> tuple[Recipe, Part]:
    if Path(target).is_dir():
        run = Run.open(target)
        recipe = run.recipe_with(list(settings))
        return recipe, model_tree(recipe, Tokenizers.load(run.folder, recipe.text.joint))
    recipe = load_recipe(target, settings)
    return recipe, model_tree(recipe)
