"""`regard explain`: a model as a tree of parts, and what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError, nearest
from regard.families.captioner import CaptionerConfig
from regard.families.sizes import SIZES, Cells, Size, context, counted
from regard.families.words import WordsConfig
from regard.model.count import Part
from regard.recipe import Recipe, builtin_names, load_recipe
from regard.tasks.cost import TYPICAL, model_tree, typical
from regard.tasks.explain_looks import computed, draw_looks, looks, looks_at_cells
from regard.tasks.run import Run
from regard.tasks.sizes import Footprint, sized
from regard.tasks.table import TASKS

UNITS = (("MFLOP", 1e6), ("GFLOP", 1e9), ("TFLOP", 1e12))  # of the operations' column: the first that keeps it readable


def explain_tree(target: str, settings: Sequence[str]) -> str:
    """Every part with its shape in our letters, parameters, operations for a typical text, and file; then what it all needs."""
    model = _explained(target, settings)
    rows = [("  " * depth + part.name, part.shape, part) for depth, part in model.footprint.tree.walk()]
    first, second = (max(len(row[n]) for row in rows) + 2 for n in (0, 1))  # type: ignore[arg-type]
    unit, scale = next((u for u in UNITS if model.footprint.tree.flops < 1e5 * u[1]), UNITS[-1])
    lines = [
        f"{model.title}: {model.paper}",
        "B batch, L length (of the target), M source length, D width, H heads, K head width, F feed-forward width, V vocabulary",
        "",
        f"{'part':<{first}}{'shape':<{second}}{'parameters':>16}{unit:>11}  file",
    ]
    lines += [f"{n:<{first}}{s:<{second}}{p.parameters:>16,}{p.flops / scale:>11,.1f}  regard/{p.file}" for n, s, p in rows]
    if isinstance(model.footprint.config, WordsConfig):  # nobody looks at anybody, and a word is its row
        return "\n".join([*lines, "", f"{'parameters':<12}{model.footprint.parameters:,}"])
    if isinstance(config := model.footprint.config, CaptionerConfig):  # an image is not counted in tokens
        lines += ["", f"{'parameters':<12}{model.footprint.parameters:,}", f"{'looks':<12}{looks_at_cells(config)}"]
        return "\n".join(lines)
    lines += ["", *model.footprint.lines(), f"{'looks':<12}{looks(config)}"]
    lines += [] if isinstance(config, Cells) else [f"{'computed':<12}{computed(model.footprint)}"]
    return "\n".join(lines)


def explain_picture(target: str, settings: Sequence[str], out: Path) -> None:
    """Who may look at whom."""
    model = _explained(target, settings)
    draw_looks(model.title, model.footprint, out)


def explain_rows(target: str, settings: Sequence[str]) -> dict[str, Any]:
    """The tree for machines, with all figures at its root."""
    model = _explained(target, settings)
    plain = isinstance(model.footprint.config, WordsConfig | CaptionerConfig)
    figures = {"parameters": model.footprint.parameters} if plain else model.footprint.figures()
    return _as_dict(model.footprint.tree) | {"title": model.title, "paper": model.paper, "figures": figures}


def _as_dict(part: Part) -> dict[str, Any]:
    own = {
        "name": part.name,
        "shape": part.shape,
        "parameters": part.parameters,
        "flops": part.flops,
        "file": f"regard/{part.file}",
    }
    return own | ({"parts": [_as_dict(child) for child in part.children]} if part.children else {})


@dataclass(frozen=True)
class _Explained:
    title: str
    paper: str
    footprint: Footprint


def _explained(target: str, settings: Sequence[str]) -> _Explained:
    """A run by its folder, a recipe by its name or file, or a published size; of a size and a recipe of one name, the recipe."""
    if Path(target).is_dir():
        run = Run.open(target)
        recipe = run.recipe_with(list(settings))
        own = TASKS[recipe.task.name].parts
        return _of_recipe(recipe, own(run, recipe, typical(recipe)) if own else model_tree(recipe, *run.vocabulary_sizes()))
    recipes = builtin_names()
    if target in SIZES and target not in recipes:
        return _of_size(*sized(target, settings))
    if Path(target).name == target and Path(target).suffix != ".toml" and target not in recipes:
        raise UserError(
            f"there is no recipe and no size {target!r}{nearest(target, [*recipes, *SIZES])} Give a recipe ('regard recipes' "
            "lists them), a size such as gpt3-175b, the folder of a run, or a .toml file."
        )
    recipe = load_recipe(target, settings)
    return _of_recipe(recipe, model_tree(recipe))


def _of_recipe(recipe: Recipe, tree: Part) -> _Explained:
    about = recipe.recipe
    return _Explained(about.title or about.name, about.paper, Footprint(recipe.model, tree, typical(recipe)))


def _of_size(size: Size, as_published: bool) -> _Explained:
    tokens = context(size.config) or TYPICAL
    tree = counted(size.config, size.vocabulary, tokens)
    title = size.title if as_published else f"{size.title} with other settings"
    return _Explained(title, size.paper, Footprint(size.config, tree, tokens, size if as_published else None))
