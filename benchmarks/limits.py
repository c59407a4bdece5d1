"""Where attention fails: parity and brackets that are longer than in training, nested lists by their depth.

    regard bench limits [parity-short parity dyck listops] [seeds=1,2,3] [train.steps=N]

A small encoder (recipe `limits`) learns each on short sequences and is then asked of longer ones, or of deeper ones; no sequence
that it is asked of was trained on. One answer for all scores about 50%, of lists some 14%. A counter, or a stack, gets all right.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import measure
from benchmarks.lra import recorded, typed, whole
from benchmarks.measure import Table
from benchmarks.steps import DEVICE
from regard.commands.train import train_run
from regard.data.lra import Sequences, generate_sequences
from regard.data.lra.formal import depths
from regard.runs.recipe import load_recipe
from regard.tasks.classification.predict import TextClassifier
from regard.tasks.registry import open_run

SETTING = (
    "Recipe `limits`: an encoder of 2 layers, width 64, mean pooling, sinusoidal positions. Accuracy on sequences that were not "
    "trained on, in percent: the mean over seeds, and the best of them."
)


class Limit(NamedTuple):
    what: str
    train: str
    valid: str
    asked: tuple[str, ...]
    by_depth: bool = False


LIMITS = {
    "parity-short": Limit(
        "parity, learned on four fifths of all rows of 2 to 10 bits",
        "parity@length=2-10@count=1600",
        "parity@length=2-10@count=150",
        ("parity@length=2-10@count=150", "parity@length=11-14", "parity@length=15-20", "parity@length=21-40"),
    ),
    "parity": Limit(
        "parity, learned on 20,000 rows of 2 to 20 bits",
        "parity@length=2-20",
        "parity@length=2-20",
        ("parity@length=2-10@count=150", "parity@length=11-20", "parity@length=21-40"),
    ),
    "dyck": Limit(
        "two kinds of brackets, at most four deep, learned on 20,000 texts of 4 to 20",
        "dyck@length=4-20",
        "dyck@length=4-20",
        ("dyck@length=4-10@count=500", "dyck@length=12-20", "dyck@length=22-40", "dyck@length=42-80"),
    ),
    "listops": Limit(
        "nested lists of 5 to 60 symbols, 40,000 of them, asked by their depth",
        "listops@length=5-60@count=40000",
        "listops@length=5-60@count=1000",
        ("listops@length=5-60@count=4000",),
        by_depth=True,
    ),
}


def measured(limit: Limit, seed: int, given: Sequence[str]) -> dict[str, float]:
    """The accuracy on each set that is asked for, or of each depth."""
    data = [f"data.train=builtin:{limit.train}/train", f"data.valid=builtin:{limit.valid}/valid", "data.test="]
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        train_run(load_recipe("limits", [*data, *given, f"train.seed={seed}"]), run, DEVICE, lambda line: None)
        answers = open_run(run)
    assert isinstance(answers, TextClassifier)
    sets = {entry: generate_sequences(f"builtin:{entry}/test") for entry in limit.asked}
    if limit.by_depth:
        sets = {name: part for whole_set in sets.values() for name, part in by_depth(whole_set).items()}
    return {name: accuracy(answers, part) for name, part in sets.items()}


def accuracy(answers: TextClassifier, asked: Sequences) -> float:
    answers.run = None  # which is gone, and wants no list of mistakes
    return float(answers.evaluate(asked).scores.accuracy)


def by_depth(trees: Sequences, least: int = 50) -> dict[str, Sequences]:
    """Those of each depth of which there are enough to tell."""
    found = depths(trees.flat, trees.lengths)
    return {
        f"depth {depth}": trees.take(rows) for depth in np.unique(found) if len(rows := np.flatnonzero(found == depth)) >= least
    }


def tables(data: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Table]:
    """One for each limit: a line for each set that was asked."""
    made = []
    for name, seeds in data.items():
        rows = [
            [asked, f"{100 * statistics.mean(scores):.1f}", f"{100 * max(scores):.1f}", str(len(scores))]
            for asked in next(iter(seeds.values()))
            for scores in [[found[asked] for found in seeds.values()]]
        ]
        made.append(Table(title=LIMITS[name].what, columns=["asked of", "accuracy", "best", "seeds"], rows=rows))
    return made


def main(arguments: Sequence[str] = ()) -> None:
    """Those named are measured again, the others stay as they were recorded."""
    names, chosen, settings = typed(arguments, LIMITS, {"seeds": "1,2,3"})
    for name in names or LIMITS:
        seeds: dict[str, dict[str, float]] = {}
        for seed in whole(chosen["seeds"]):
            seeds[str(seed)] = measured(LIMITS[name], seed, settings)
            print(
                f"{name} seed {seed}: {', '.join(f'{asked} {score:.1%}' for asked, score in seeds[str(seed)].items())}",
                flush=True,
            )
            data = recorded("limits") | {name: seeds}
            data = {each: data[each] for each in LIMITS if each in data}
            told = {"title": "Where attention fails", "setting": SETTING, "versions": {}, "rows": [], "curves": []}
            measure.write("limits", {**told, "tables": tables(data), "data": data})


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "limits" else ())
