"""A hierarchical attention network on IMDB, from scratch: word vectors of the same reviews first, then three seeds of it.

    REGARD_DATA=FOLDER python -m benchmarks.hierarchical [section.key=value ...]

Vectors are learned from the training reviews and, where it is there, from text8_style. Settings are chosen by the 500 reviews at
the end of training, which nothing learns from: what is typed is set beside those here, and then the test reviews are left alone.
Told are accuracies, and which words of held-out reviews the network looks at most, by what it takes the reviews for.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import measure
from benchmarks.real import DATA, folder, hold_out
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import train_run
from regard.core.errors import UserError
from regard.data.sources.labelled import read_labelled
from regard.runs.recipe import load_recipe
from regard.tasks.classification.inspect import document_of
from regard.tasks.classification.predict import TextClassifier
from regard.tasks.registry import open_run

SEEDS = (1, 2, 3)
HELD_OUT = 500  # reviews
BARS = {"floor": 0.82, "goal": 0.86}
VECTORS = ("model.width=200", "text.minimum_count=3", "train.epochs=10")
SETTINGS = (
    *("model.width=200", "model.dropout=0.5", "text.size=40000", "text.minimum_count=2", "data.maximum_tokens=500"),
    *("train.epochs=8", "train.best=accuracy", "train.tokens_per_batch=16384", "train.learning_rate=1e-3", "train.warmup=50"),
    *("train.weight_decay=0.01", "train.validate_every=50", "train.checkpoint_every=1000"),
)
ASKED, NAMED, LEAST = 200, 10, 3  # held-out reviews that are looked into, words that are named, and reviews that have one of them


class Seed(NamedTuple):
    validation: float
    accuracy: float | None  # on the test reviews, where they are asked
    seconds: float
    looked_at: dict[str, list[str]]


def vectors(into: Path, train: Path) -> Path:
    texts = [str(train)]
    try:
        texts.append(str(folder(DATA, "text8_style", "enwik8_clean_17MB.txt.gz")))
    except UserError:
        print("text8_style is not there; vectors are of the reviews alone", flush=True)
    run = into / "vectors"
    train_run(load_recipe("skipgram", [f"data.train={','.join(texts)}", *VECTORS]), run, DEVICE, lambda line: None)
    return run


def trained(settings: Sequence[str], valid: str, run: Path) -> Seed:
    outcome = train_run(load_recipe("classify-han", settings), run, DEVICE, lambda line: None)
    assert outcome.progress.best is not None
    accuracy = None if outcome.result is None else float(outcome.result.as_dict()["accuracy"])
    answers = open_run(str(run), None)
    assert isinstance(answers, TextClassifier)
    return Seed(outcome.progress.best, accuracy, outcome.progress.seconds, most_looked_at(answers, valid))


def most_looked_at(answers: TextClassifier, valid: str) -> dict[str, list[str]]:
    """By label that is said: words with the greatest mean of sqrt(p_s) p_w, of those that several reviews have."""
    weights: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for example in read_labelled((valid,))[:ASKED]:
        found = document_of(answers, example.text)
        said = weights[found.told.partition(" ")[0]]
        here: dict[str, float] = defaultdict(float)
        for sentence in found.sentences:
            for word, shade in zip(sentence.words, sentence.shades()):
                here[word.text.lower()] = max(here[word.text.lower()], shade)
        for text, shade in here.items():
            said[text].append(shade)
    common = {label: {text: each for text, each in words.items() if len(each) >= LEAST} for label, words in weights.items()}
    return {
        label: sorted(words, key=lambda text: -float(np.mean(words[text])))[:NAMED] for label, words in sorted(common.items())
    }


def report(seeds: Sequence[Seed], command: str) -> dict[str, Any]:
    scores = [seed.accuracy for seed in seeds if seed.accuracy is not None]
    found: dict[str, Any] = {
        "command": command,
        "metric": "accuracy",
        "validation": [seed.validation for seed in seeds],
        "seconds": [round(seed.seconds, 1) for seed in seeds],
        "looked_at": [seed.looked_at for seed in seeds],
    }
    if not scores:
        return found
    mean = statistics.mean(scores)
    bars = {level: f"{least:g} {'met' if mean >= least else 'not met'}" for level, least in BARS.items()}
    return found | {
        "mean": mean,
        "deviation": statistics.stdev(scores) if len(scores) > 1 else 0.0,
        "scores": scores,
        "bars": bars,
    }


def main(more: Sequence[str] = (), seeds: Sequence[int] = SEEDS) -> None:
    with tempfile.TemporaryDirectory() as name:
        into = Path(name)
        train, valid = hold_out(folder(DATA, "imdb", "train.jsonl.gz"), HELD_OUT, into)
        known = vectors(into, train)
        test = "" if more else folder(DATA, "imdb", "test.jsonl.gz")
        given = [f"data.train={train}", f"data.valid={valid}", f"data.test={test}", f"text.vectors={known}", *SETTINGS, *more]
        with ProcessPoolExecutor(len(seeds) if CUDA else 1, multiprocessing.get_context("spawn")) as pool:
            runs = [pool.submit(trained, [*given, f"train.seed={seed}"], str(valid), into / str(seed)) for seed in seeds]
            found = [run.result() for run in runs]
    told = report(found, f"regard train classify-han data.train=imdb/train.jsonl.gz ... {' '.join([*SETTINGS, *more])}")
    print(f"validation {told['validation']}, test {told.get('scores')}", flush=True)
    for label, words in found[0].looked_at.items():
        print(f"{label}: {', '.join(words)}", flush=True)
    if not more:
        measure.write("hierarchical", {"data": {"imdb": told}})


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "hierarchical" else ())
