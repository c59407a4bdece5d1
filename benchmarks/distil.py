"""Three of MiniLM-L6's six layers learn SST-2 from all of them: score kept and speed gained, against what was promised.

    REGARD_MINILM=FOLDER REGARD_DATA=FOLDER python -m benchmarks.distil [reviews]

Three times a teacher is fine-tuned by `finetune-classify`, and its student trained by `distil` with the same seed. Both are
scored on the dev set, which is neither trained on nor chosen by: the end of the training data is held out for validation. The
race on the CPU comes last, when nothing else runs. With `reviews` the student also reads the sentences of IMDB's reviews,
of which it knows only what its teacher says.
"""

from __future__ import annotations

import multiprocessing
import re
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import measure
from benchmarks.real import DATA, MINILM, folder, hold_out
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import Outcome, train_run
from regard.data.sources.records import json_records
from regard.runs.init_recipe import load_recipe_to_train
from regard.tasks.classification.distillation import Distilled, alternated, some
from regard.tasks.classification.predict import TextClassifier
from regard.tasks.classification.prepare import read_labelled_split
from regard.tasks.registry import open_run

SEEDS = (1, 2, 3)
AT_ONCE = 3 if CUDA else 1  # trainings share the device
HELD_OUT = 2_000
COLUMNS = "data.columns=sentence|content,label"
STUDY = ("train.epochs=4", "train.learning_rate=1e-4", "train.precision=bf16")  # a trained body learns at a lower rate
SIDES = ("teacher", "student")
KEPT, FASTER, LAYERS = 0.97, 1.8, 0.5


class Taught(NamedTuple):
    """A teacher and its student, as they were trained with one seed."""

    runs: tuple[str, str]
    report: dict[str, Any]  # see `Comparison.as_dict`
    layers: tuple[int, ...]
    seconds: tuple[float, ...]
    validation: tuple[float, ...]  # losses of the weights that were chosen


def taught(seed: int, data: Sequence[str], into: Path, teacher_has: Sequence[str], student_has: Sequence[str]) -> Taught:
    given = [*data, COLUMNS, f"train.seed={seed}"]
    teacher = _trained("finetune-classify", [f"task.init_from={folder(MINILM)}", *given, *teacher_has], into / f"teacher-{seed}")
    lesson = [f"objective.teacher={teacher.run.folder}", *given, *STUDY, *student_has]
    student = _trained("distil", lesson, into / f"student-{seed}")
    assert isinstance(student.result, Distilled)
    both = teacher, student
    return Taught(
        runs=(str(teacher.run.folder), str(student.run.folder)),
        report=student.result.comparison.as_dict(),
        layers=tuple(each.prepared.recipe.model.layers for each in both),
        seconds=tuple(each.progress.seconds for each in both),
        validation=tuple(each.progress.best_nll or float("nan") for each in both),
    )


def _trained(recipe: str, settings: Sequence[str], into: Path) -> Outcome:
    return train_run(load_recipe_to_train(recipe, settings), into, DEVICE, lambda line: None)


def raced(found: Taught, data: Sequence[str]) -> float:
    """How many times as fast the student is on the CPU, on texts of natural lengths."""
    teacher, student = (open_run(run, "cpu") for run in found.runs)
    assert isinstance(teacher, TextClassifier)
    assert isinstance(student, TextClassifier)
    test = read_labelled_split(load_recipe_to_train("distil", [f"objective.teacher={found.runs[0]}", *data, COLUMNS]), "test")
    slow, fast = alternated((teacher, student), some(test))
    return statistics.median(a / b for a, b in zip(slow, fast))


def report(found: Sequence[Taught], faster: Sequence[float]) -> dict[str, Any]:
    kept = [each.report["accuracy_kept"] for each in found]
    scores = {side: [each.report[side]["accuracy"] for each in found] for side in SIDES}
    layers = found[0].layers
    bars = {
        "layers": (layers[1] / layers[0], layers[1] <= LAYERS * layers[0], f"at most {LAYERS:g} of the teacher's"),
        "accuracy_kept": (statistics.mean(kept), statistics.mean(kept) >= KEPT, f"at least {KEPT:g}"),
        "times_as_fast_on_cpu": (statistics.median(faster), statistics.median(faster) >= FASTER, f"at least {FASTER:g}"),
    }
    return {
        "command": f"regard train distil objective.teacher=runs/finetune-classify data.train=... {shlex.join([COLUMNS, *STUDY])}",
        "layers": {"teacher": layers[0], "student": layers[1]},
        "accuracy": {side: {"mean": statistics.mean(values), "scores": values} for side, values in scores.items()},
        "accuracy_kept": {"mean": statistics.mean(kept), "each": kept, "deviation": statistics.stdev(kept) if kept[1:] else 0.0},
        "times_as_fast_on_cpu": {"median": statistics.median(faster), "each": list(faster)},
        "pairs": [_nameless(each.report) for each in found],
        "validation_losses": {side: [each.validation[n] for each in found] for n, side in enumerate(SIDES)},
        "seconds": {side: [each.seconds[n] for each in found] for n, side in enumerate(SIDES)},
        "trainings_at_once": AT_ONCE,
        "bars": {name: f"{told}: {value:.3f}, {'met' if met else 'not met'}" for name, (value, met, told) in bars.items()},
    }


def _nameless(report: dict[str, Any]) -> dict[str, Any]:
    """Their folders are gone."""
    return report | {side: {key: value for key, value in report[side].items() if key != "name"} for side in SIDES}


def sentences(reviews: Path, into: Path) -> Path:
    """Of the reviews, a line each, as long as SST-2's are: from three words to forty."""
    texts = (str(record["text"]) for _, record in json_records(reviews, '{"text": "..."}'))
    cut = (sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s+|<br />", text))
    kept = dict.fromkeys(" ".join(words) for sentence in cut if 3 <= len(words := sentence.split()) <= 40)
    (path := into / "sentences.txt").write_text("".join(f"{sentence}\n" for sentence in kept), "utf-8")
    return path


def main(
    reviews: bool = False, seeds: Sequence[int] = SEEDS, teacher: Sequence[str] = (), student: Sequence[str] = ()
) -> dict[str, Any]:
    """`teacher` and `student` are more settings for each, for whoever tries something."""
    with tempfile.TemporaryDirectory() as name:
        into = Path(name)
        train, valid = hold_out(folder(DATA, "sst2", "train.tsv.gz"), HELD_OUT, into, header=True)
        data = [f"data.train={train}", f"data.valid={valid}", f"data.test={folder(DATA, 'sst2', 'dev.tsv.gz')}"]
        more = [f"data.unlabelled={sentences(folder(DATA, 'imdb', 'train.jsonl.gz'), into)}"] if reviews else []
        with ProcessPoolExecutor(AT_ONCE, multiprocessing.get_context("spawn")) as pool:
            running = [pool.submit(taught, seed, data, into, teacher, [*more, *student]) for seed in seeds]
            found = [each.result() for each in running]
        made = {"reviews": reviews, **report(found, [raced(each, data) for each in found])}
    for bar, told in made["bars"].items():
        print(f"{bar}: {told}", flush=True)
    print(f"validation losses, teacher and student: {made['validation_losses']}", flush=True)
    return made


if __name__ == "__main__":
    from benchmarks.distil import main as as_module  # other processes find `taught` there, and not in a script

    measure.write("distil", as_module("reviews" in sys.argv[1:]))
