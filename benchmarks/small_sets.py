"""MiniLM-L6 fine-tuned on 2,000 examples by the recipes' defaults: only `task.init_from` and `data.*` are given; three seeds.

    REGARD_MINILM=FOLDER REGARD_DATA=FOLDER python -m benchmarks.small_sets [cola inference mrpc] [seeds=1,2,3]

Each seed is recorded as it is done, and one that has been recorded is not trained again: what was stopped goes on where it
stood; delete a set from the results to measure it again. Weights are chosen by the 400 validation examples, and the test is
looked at once. Beside each score stand the majority class of the test and logistic regression on MiniLM's frozen vectors, whose
strength is chosen by the same validation.
"""

from __future__ import annotations

import gzip
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import regard
from benchmarks import measure
from benchmarks.real import DATA, MINILM, folder
from benchmarks.steps import CUDA
from benchmarks.trained import trained
from regard.core.errors import UserError, nearest
from regard.data.builtin.inference import inferences
from regard.metrics.classification import ClassificationScores

SEEDS = (1, 2, 3)
TRAIN, VALID = 2_000, 400
STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # of the peer: sklearn's C

Row = dict[str, str]
Splits = dict[str, list[Row]]


@dataclass(frozen=True)
class Small:
    recipe: str
    what: str
    read: Callable[[], Splits]


def sampled(rows: Sequence[Row], test: Sequence[Row]) -> Splits:
    """2,000 examples to train on and 400 to validate with, the same for every seed of training; the test as it is."""
    order = random.Random(1).sample(range(len(rows)), TRAIN + VALID)
    return {"train": [rows[n] for n in order[:TRAIN]], "valid": [rows[n] for n in order[TRAIN:]], "test": list(test)}


def mrpc() -> Splits:
    def read(name: str) -> list[Row]:
        rows = _rows(folder(DATA, "mrpc", name))
        return [{"sentence1": row[3], "sentence2": row[4], "label": row[0]} for row in rows if row[0] in ("0", "1")]

    return sampled(read("msr_paraphrase_train.txt.gz"), read("msr_paraphrase_test.txt.gz"))


def cola() -> Splits:
    """Its test has no labels, so both of its dev sets are the test, and validation comes from its training sentences."""

    def read(name: str) -> list[Row]:
        return [{"sentence": row[3], "label": row[1]} for row in _rows(folder(DATA, "cola", name))]

    return sampled(read("in_domain_train.tsv.gz"), read("in_domain_dev.tsv.gz") + read("out_of_domain_dev.tsv.gz"))


def inference() -> Splits:
    """Our own: what follows from what, decided by logic; half of the test has words together that training never has."""

    def read(split: str) -> list[Row]:
        return [{"sentence1": pair.text, "sentence2": pair.second, "label": pair.label} for pair in inferences(split)]

    return sampled(read("train"), read("test"))


SETS = {
    "cola": Small("finetune-classify", "is a sentence acceptable?", cola),
    "inference": Small("finetune-pair", "does the second statement follow, contradict, or neither? (generated here)", inference),
    "mrpc": Small("finetune-pair", "do two sentences say the same?", mrpc),
}


def _rows(path: Path) -> Iterable[list[str]]:
    """Of a table whose quotes are quotes."""
    return [line.split("\t") for line in gzip.decompress(path.read_bytes()).decode("utf-8-sig").splitlines()]


def settings(splits: Splits, into: Path) -> list[str]:
    """What is typed after `regard train RECIPE`, with the files written `into` a folder."""
    given = [f"task.init_from={folder(MINILM)}"]
    for split, rows in splits.items():
        path = into / f"{split}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        given.append(f"data.{split}={path}")
    return given


def frozen(splits: Splits) -> dict[str, float]:
    """Logistic regression on the vectors of a text; of two texts, on both, how far they are apart, and their product."""
    from sklearn.linear_model import LogisticRegression

    embedder: Any = regard.load(folder(MINILM))
    names = sorted({row["label"] for row in splits["train"]})
    x, y = {}, {}
    for split, rows in splits.items():
        texts = [key for key in rows[0] if key != "label"]
        vectors = [np.asarray(embedder([row[key] for row in rows])) for key in texts]
        x[split] = np.hstack([*vectors, abs(vectors[0] - vectors[1]), vectors[0] * vectors[1]] if vectors[1:] else vectors)
        y[split] = np.array([names.index(row["label"]) for row in rows])
    learned = [LogisticRegression(C=strength, max_iter=2000).fit(x["train"], y["train"]) for strength in STRENGTHS]
    scores = [
        {split: ClassificationScores.of(names, y[split], model.predict(x[split]), nll=0.0) for split in ("valid", "test")}
        for model in learned
    ]
    best = max(range(len(learned)), key=lambda n: scores[n]["valid"].mcc)  # as weights of a classifier are chosen
    return {"accuracy": scores[best]["test"].accuracy, "mcc": scores[best]["test"].mcc, "C": STRENGTHS[best]}


def report(small: Small, splits: Splits, peer: dict[str, float], runs: dict[str, dict[str, float]]) -> dict[str, Any]:
    labels = [row["label"] for row in splits["test"]]
    majority = max(labels.count(label) for label in set(labels)) / len(labels)
    accuracies, mccs = ([run[figure] for run in runs.values()] for figure in ("accuracy", "mcc"))
    return {
        "what": small.what,
        "command": f"regard train {small.recipe} task.init_from=FOLDER data.train=FILE data.valid=FILE data.test=FILE",
        "examples": {split: len(rows) for split, rows in splits.items()},
        "majority": majority,
        "frozen": peer,
        "accuracy": statistics.mean(accuracies),
        "deviation": statistics.stdev(accuracies) if len(runs) > 1 else 0.0,
        "mcc": statistics.mean(mccs),
        "least_above_majority": min(accuracies) - majority,
        "standard_error": (majority * (1 - majority) / len(labels)) ** 0.5,  # of a share of the test's size
        "seeds": runs,
    }


def recorded() -> dict[str, Any]:
    path = measure.RESULTS / f"small_sets.{'cuda' if CUDA else 'cpu'}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["sets"] if path.is_file() else {}
    return found


def measured(name: str, seeds: Sequence[int]) -> None:
    small, found = SETS[name], recorded().get(name, {})
    splits, runs = small.read(), dict(found.get("seeds", {}))
    peer = found.get("frozen") or frozen(splits)

    def record() -> dict[str, Any]:
        sets = recorded() | {name: report(small, splits, peer, runs)}
        measure.write("small_sets", {"sets": {each: sets[each] for each in SETS if each in sets}})
        made: dict[str, Any] = sets[name]
        return made

    for seed in (seed for seed in seeds if str(seed) not in runs):
        with tempfile.TemporaryDirectory() as into:
            run = trained(small.recipe, [*settings(splits, Path(into)), f"train.seed={seed}"])
        figures = {figure: float(run.scores[figure]) for figure in ("accuracy", "mcc", "macro_f1")}
        runs[str(seed)] = figures | {"validation": run.validation, "seconds": round(run.seconds, 1)}
        print(f"{name}, seed {seed}: {runs[str(seed)]}; majority {record()['majority']:.4f}", flush=True)
    if runs and "frozen" not in found:
        record()


def main(names: Sequence[str] = (), seeds: Sequence[int] = SEEDS) -> None:
    if strangers := [name for name in names if name not in SETS]:
        raise UserError(f"there is no data set {strangers[0]!r}{nearest(strangers[0], SETS)}")
    for name in names or SETS:
        measured(name, seeds)


def typed(arguments: Sequence[str]) -> tuple[list[str], list[int]]:
    chosen = [int(seed) for word in arguments if word.startswith("seeds=") for seed in word[6:].split(",")]
    return [word for word in arguments if not word.startswith("seeds=")], chosen or list(SEEDS)


if __name__ == "__main__":
    main(*typed(sys.argv[1:] if Path(sys.argv[0]).stem == "small_sets" else ()))
