"""`regard prune`: a run without its least important heads, as a new run that is smaller and faster, and what that costs in score.

How important heads are, and what is left of the score, is measured on the run's validation data, or on a file that is given; test
data is for `regard evaluate`, once the choice is made.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.commands.subjects import recipe_with_data, subjects
from regard.commands.train import to_try
from regard.core.atomic import check_place
from regard.core.errors import UserError, nearest
from regard.core.files import draft_folder, is_free
from regard.data.loader import Loader
from regard.families import family_of
from regard.lens.analyses.importance import (
    PENALTY,
    STEPS,
    Importance,
    PruningCurve,
    Removed,
    counts,
    importance,
    kept_count,
    learn_gates,
    leave_one_out,
    order_of_removal,
    random_scores,
    scored_at,
    without_first,
)
from regard.lens.result import check_suffix, save
from regard.model.layers import pack
from regard.model.probe import attentions
from regard.model.pruning import prune, pruned_weights, with_fewer
from regard.runs.folder import Run, Say, choose_device
from regard.runs.protocols import Predictor
from regard.runs.recipe import Recipe
from regard.runs.task import TASKS
from regard.tasks.corpus import TestText

WAYS = ("importance", "normalised", "ablation", "random", "L0")
TEXTS = 200  # that importance is measured on
SCORED = 500  # examples that a point of the curve is scored on
CURVE = "pruning"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Options of a pruning."""

    keep: float = 0.5
    by: str = "importance"
    data: Path | None = None
    penalty: float = PENALTY
    steps: int = STEPS
    seed: int = 0


def prune_run(
    folder: Path, out: Path, wish: Wish, settings: Sequence[str], picture: Path | None, device: str | None, say: Say
) -> Iterator[str]:
    """Lines for people: the curve, and what was made. What can be refused without the model is refused before it is loaded."""
    if wish.by not in WAYS:
        raise UserError(f"--by {wish.by} is not a way to choose heads{nearest(wish.by, WAYS)}")
    if picture is not None:
        check_suffix(picture)
        check_place(picture, "--curve")
    if not is_free(out):
        raise UserError(f"{out} exists already and is not an empty folder; give another for the pruned run.")
    run, recipe = Run.open(folder), recipe_with_data(str(folder), wish.data, split="valid")
    test = _bounded(TASKS[recipe.task.name].read_test(recipe))
    searched = run.recipe_with(settings)
    if not family_of(recipe.model).has("blocks"):
        raise UserError(
            f"{folder} is a {recipe.model.family} network, whose attention has one head, and one must stay; prune another run."
        )
    if recipe.model.mixer == "conv":
        raise UserError(f"{folder} has convolutions in place of attention (model.mixer=conv), whose heads stay together.")
    if not TASKS[recipe.task.name].metrics:
        raise UserError(f"task {recipe.task.name} has no score, so there is no curve to draw; prune a run that is scored.")
    answers = TASKS[recipe.task.name].open(run, searched, choose_device(device))
    kept = kept_count(wish.keep, {name: (0.0,) * one.heads for name, one in attentions(answers.model).items()})
    found = ranked(answers, recipe, run, wish, say)
    curve = pruning_curve(answers, recipe, test, found, kept)
    yield from curve.lines()
    removed = without_first(order_of_removal(found.scores), curve.heads - kept)
    _write(run, recipe, out, removed, curve)
    if picture is not None:
        save(curve, picture)
        yield f"drawn: {picture}"
    yield f"pruned: {out} has {kept} of {curve.heads} heads    try: {to_try(recipe, out)}    score: regard evaluate {out}"


def ranked(answers: Predictor, recipe: Recipe, run: Run, wish: Wish, say: Say) -> Importance:
    if wish.by == "random":
        return random_scores({name: (0.0,) * one.heads for name, one in attentions(answers.model).items()}, wish.seed)
    if wish.by == "L0":
        say(f"learning gates for {wish.steps} steps on the training data")
        return learn_gates(
            answers.model, _losses(answers.model, run, say), steps=wish.steps, penalty=wish.penalty, seed=wish.seed
        )
    say(f"measuring heads on up to {TEXTS} texts")
    texts = subjects(answers, recipe, TEXTS)
    return leave_one_out(texts) if wish.by == "ablation" else importance(texts, by_layer=wish.by == "normalised")


def _losses(model: nn.Module, run: Run, say: Say) -> Callable[[int], Tensor]:
    """Return the loss of the run's training batch of a given number."""
    prepared = TASKS[run.recipe.task.name].prepare(run.recipe, run.folder, lambda line: None)
    objective, loader = prepared.objective(), Loader(prepared.source(packed=False))
    device = next(model.parameters()).device

    def loss(step: int) -> Tensor:
        (batch,) = loader.work(step).batches
        found = objective(model, batch.to(device))
        return found.total / found.count

    return loss


def pruning_curve(answers: Predictor, recipe: Recipe, test: Any, found: Importance, also: int) -> PruningCurve:
    task = TASKS[recipe.task.name]
    heads, names = sum(map(len, found.scores.values())), list[str]()

    def score(removed: Removed) -> float:
        figures = pruned_answers(answers, removed).evaluate(test).as_dict()
        names.append(next(metric for metric in task.metrics if metric in figures))
        return float(figures[names[-1]])

    kept = counts(heads, len(found.scores), also=(also,))
    points = scored_at(order_of_removal(found.scores), heads, kept, score)
    where = ", ".join(map(str, recipe.data.test))
    examples = f"{len(test):,} examples of {where}" if isinstance(test, list) else where
    title, more = f"{recipe.recipe.name}: score against heads kept", not task.lower_is_better
    return PruningCurve(title, found.method, heads, names[0], more, examples, points)


def pruned_answers(answers: Predictor, removed: Removed) -> Predictor:
    """Return the predictor with a model without these heads, packed again where it was packed."""
    both = getattr(answers, "both", None)  # networks of an ELECTRA, which is scored as a whole
    whole: nn.Module = deepcopy(both or answers.model)
    model = getattr(whole, "discriminator", whole)
    if removed:
        prune(model, removed)
    if next(model.parameters()).device.type == "cpu":
        pack(model, getattr(getattr(answers, "decode", None), "weights", "float32"))
    other: dict[str, Any] = {"model": model.eval()}
    if both is not None:
        other["both"] = whole
    if "run" in {field.name for field in fields(answers)}:  # type: ignore[arg-type]
        other["run"] = None  # whose list of mistakes is that of the whole model
    return replace(answers, **other)  # type: ignore[type-var]


def _bounded(test: Any) -> Any:
    """A point of a curve need not be scored on everything; nor be compared with what else could predict the text."""
    if isinstance(test, TestText):
        return replace(test, train=())
    return test[:SCORED] if isinstance(test, list) else test


def _write(run: Run, recipe: Recipe, out: Path, removed: Removed, curve: PruningCurve) -> None:
    """A run like any other: settings that say which heads are gone, and weights that fit them."""
    model = run.recipe.model
    pruned = replace(run.recipe, model=replace(model, pruned=with_fewer(model, removed)))
    weights = run.weights()
    smaller = pruned_weights(weights.tensors("model"), model, removed)
    with draft_folder(out, last="recipe.toml") as draft:
        made = Run(draft)
        for path in sorted([*run.folder.glob("tokenizer*.json"), *run.folder.glob("labels.json")]):
            shutil.copyfile(path, draft / path.name)
        made.store().save("best", weights.step, {"model": smaller}, {"pruned": str(run.folder)})
        made.write("recipe.toml", pruned.to_toml())
        made.write("data.json", json.dumps({"amounts": {}, "sha256": {}, "seals": made.seals()}, indent=2) + "\n")
        made.write(
            "README.md",
            "\n".join([f"# {recipe.recipe.title or recipe.recipe.name}, pruned", "", "```", *curve.lines(), "```", ""]),
        )
        for suffix in (".json", ".png"):
            save(curve, draft / f"{CURVE}{suffix}")
