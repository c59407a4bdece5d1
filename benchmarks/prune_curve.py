"""Can most heads go? The score of a translator against how many of its heads are kept, by several ways of choosing them.

    REGARD_RUN=runs/translate-small [REGARD_SET="data.valid=a.en,a.de data.test=b.en,b.de"] regard bench prune_curve

Heads are ordered on validation data (the slope of the loss at their gates; the loss without each; learned gates; chance, as
several draws) and removed, least important first. Every point is the validation score of a model from which they are really gone,
by greedy search. Of each way, the fewest heads that lose at most TOLERATED there are then scored on the test set, once; and the
pruned model races the whole one. The picture is docs/images/pruning.png.
"""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.lines import IMAGES, draw
from benchmarks.measure import alternate, write
from regard.commands.prune import Wish, pruned_answers, pruning_curve, ranked
from regard.core.errors import UserError
from regard.lens.analyses.importance import Importance, PruningCurve, order_of_removal, without_first
from regard.model.probe import attentions
from regard.runs.folder import Run, choose_device
from regard.runs.protocols import Predictor
from regard.runs.recipe import Recipe
from regard.tasks.registry import TASKS

WAYS = ("importance", "normalised", "ablation", "L0", "random")
SEEDS = 3  # of chance
TOLERATED = 1.0  # of the score, on validation data
SCORED = 1_000
ROUNDS = 5
RACED = 200  # sentences
PICTURE = IMAGES / "pruning.png"


def measured(folder: Path, settings: list[str], ways: tuple[str, ...] = WAYS, device: str | None = None) -> dict[str, Any]:
    run = Run.open(folder)
    recipe = run.recipe_with([*settings, "decode.search=greedy"])
    if not recipe.data.valid or not recipe.data.test:
        raise UserError(f"{folder} needs validation and test data; give data.valid and data.test in REGARD_SET.")
    task = TASKS[recipe.task.name]
    answers = task.open(run, recipe, choose_device(device))
    on_valid = replace(recipe, data=replace(recipe.data, test=recipe.data.valid))
    valid, test = task.read_test(on_valid)[:SCORED], task.read_test(recipe)
    heads = sum(one.heads for one in attentions(answers.model).values())
    metric = task.metrics[0]
    result: dict[str, Any] = {"recipe": recipe.recipe.name, "heads": heads, "metric": metric, "ways": {}}
    result["whole"] = {"valid": _score(answers, valid, metric), "test": _score(answers, test, metric)}
    for way in ways:
        seeds = range(SEEDS) if way == "random" else range(1)
        for seed in seeds:
            began = time.perf_counter()
            found = ranked(answers, on_valid, run, Wish(by=way, seed=seed), lambda line: None)
            curve = pruning_curve(answers, on_valid, valid, found, heads)
            name = way if way != "random" else f"random {seed}"
            result["ways"][name] = _told(curve, answers, found, test, metric) | {"seconds": round(time.perf_counter() - began, 1)}
            print("\n".join(curve.lines()), flush=True)
            if device is None:
                write("prune_curve", result)  # each when it is known
    result["race"] = raced(answers, recipe, found, [pair.source for pair in test[:RACED]])
    return result


def _told(curve: PruningCurve, answers: Predictor, found: Importance, test: Any, metric: str) -> dict[str, Any]:
    """The points, and the test score of the smallest model that is good enough on validation data."""
    whole = curve.points[0].score
    enough = [point for point in curve.points if point.score >= whole - TOLERATED]
    fewest = min(enough, key=lambda point: point.kept)
    smaller = pruned_answers(answers, {name: list(gone) for name, gone in fewest.removed.items()})
    return {
        "kept": [point.kept for point in curve.points],
        "valid": [point.score for point in curve.points],
        "fewest": fewest.kept,
        "fewest_valid": fewest.score,
        "fewest_test": _score(smaller, test, metric),
    }


def _score(answers: Predictor, test: Any, metric: str) -> float:
    return float(answers.evaluate(test).as_dict()[metric])


def raced(answers: Any, recipe: Recipe, found: Importance, texts: list[str], rounds: int = ROUNDS) -> dict[str, Any]:
    """Whole, half and as few heads as can be, translating the same sentences, each in its own words: speed is in tokens."""
    order = order_of_removal(found.scores)
    heads, least = sum(map(len, found.scores.values())), len(found.scores)
    models: dict[str, Any] = {
        f"{kept} heads": pruned_answers(answers, without_first(order, heads - kept)) for kept in (heads, heads // 2, least)
    }
    tokens = {name: sum(len(one[0].ids) + 1 for one in model.translate(texts)) for name, model in models.items()}
    contenders = {name: partial(model.translate, texts) for name, model in models.items()}
    seconds = alternate(contenders, rounds, warm_up=1)
    speeds = {name: tokens[name] / sorted(times)[len(times) // 2] for name, times in seconds.items()}
    whole = next(iter(speeds.values()))
    parameters = {name: sum(p.numel() for p in model.model.parameters()) for name, model in models.items()}
    return {
        name: {"tokens_per_second": speed, "ratio": speed / whole, "parameters": parameters[name]}
        for name, speed in speeds.items()
    }


def picture(result: dict[str, Any]) -> None:
    """A line for each way; of chance, the mean of its draws."""
    ways = {name: way for name, way in result["ways"].items() if not name.startswith("random")}
    draws = [way for name, way in result["ways"].items() if name.startswith("random")]
    lines = {name: (way["kept"], way["valid"]) for name, way in ways.items()}
    if draws:
        lines["chance"] = (draws[0]["kept"], [fmean(scores) for scores in zip(*(way["valid"] for way in draws))])
    metric = "BLEU" if result["metric"] == "bleu" else result["metric"]
    title = f"{result['recipe']}: {metric} on validation data, without retraining"
    draw(lines, title, f"heads kept, of {result['heads']}", metric, PICTURE)


def main() -> None:
    folder = os.environ.get("REGARD_RUN")
    if not folder:
        raise UserError("REGARD_RUN must name the folder of a translator to prune, such as runs/translate-small.")
    result = measured(Path(folder), shlex.split(os.environ.get("REGARD_SET", "")))
    picture(result)
    print(f"written to {write('prune_curve', result).name}, drawn: {PICTURE.name}")


if __name__ == "__main__":
    main()
