"""MiniLM-L6 fine-tuned by the recipes on SST-2, MRPC, CoNLL-2003, SQuAD and IMDB: three seeds each, against what was promised.

    REGARD_MINILM=FOLDER REGARD_DATA=FOLDER python -m benchmarks.understand [sst2 mrpc conll2003 squad imdb]

Those named are measured again, the others stay as they were recorded. What is scored is neither trained on nor chosen by:
where a set has no third part, the end of its training data is held out for validation; of SST-2 whole sentences, and all phrases
of its training data that are parts of them.
"""

from __future__ import annotations

import json
import multiprocessing
import shlex
import statistics
import sys
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.real import DATA, MINILM, folder, hold_out, hold_out_sentences
from benchmarks.steps import CUDA
from benchmarks.trained import Trained, trained
from regard.core.errors import UserError, nearest

SEEDS = (1, 2, 3)
AT_ONCE = 3 if CUDA else 1  # trainings share the device; seconds are of each, beside the others


@dataclass(frozen=True)
class Exam:
    """A data set, how a recipe is told about it, and what is asked for."""

    recipe: str
    train: str
    test: str
    metric: str
    floor: float
    goal: float | None = None
    settings: tuple[str, ...] = ()  # beside the files
    valid: str | int = 0  # a file, or how many records at the end of `train`
    header: bool = False  # of the table to be cut
    sentences: str = ""  # a file of those whose phrases are in `train`: so many of its last ones are held out, phrases and all


EXAMS = {
    "sst2": Exam(
        recipe="finetune-classify",
        train="sst2/train.tsv.gz",
        valid=1_000,
        sentences="sst2/train_sentences_6920.tsv.gz",
        test="sst2/dev.tsv.gz",
        metric="accuracy",
        floor=0.900,
        goal=0.915,
        settings=(
            "data.columns=sentence|content,label",
            "model.pooler=mean",
            "train.learning_rate=5e-5",
            "train.epochs=3",
            "train.best=accuracy",
            "train.tokens_per_batch=512",
        ),
        header=True,
    ),
    "mrpc": Exam(
        recipe="finetune-pair",
        train="mrpc/msr_paraphrase_train.txt.gz",
        valid=400,
        test="mrpc/msr_paraphrase_test.txt.gz",
        metric="f1",
        floor=0.86,
        settings=(
            "data.columns=#1 String,#2 String,Quality",
            "model.pooler=mean",
            "train.learning_rate=1e-4",
            "train.epochs=5",
            "train.best=accuracy",
            "train.tokens_per_batch=1024",
        ),
        header=True,
    ),
    "conll2003": Exam(
        recipe="finetune-tag",
        train="conll2003/train.txt.gz",
        valid="conll2003/valid.txt.gz",
        test="conll2003/test.txt.gz",
        metric="f1",
        floor=0.86,
        goal=0.89,
        settings=("train.learning_rate=2e-4", "train.epochs=5", "train.best=f1"),
    ),
    "squad": Exam(
        recipe="finetune-answer",
        train="squad/train-v1.1-head.json.gz",
        valid=40,
        test="squad/dev-v1.1.json.gz",
        metric="f1",
        floor=0.50,
        goal=0.62,
        settings=("train.learning_rate=2e-4", "train.epochs=4", "train.tokens_per_batch=3072"),
    ),
    "imdb": Exam(
        recipe="finetune-classify",
        train="imdb/train.jsonl.gz",
        valid=500,
        test="imdb/test.jsonl.gz",
        metric="accuracy",
        floor=0.88,
        goal=0.91,
        settings=(
            "data.maximum_tokens=512",
            "train.tokens_per_batch=8192",
            "train.learning_rate=1e-4",
            "train.epochs=4",
            "train.best=accuracy",
        ),
    ),
}


def settings(exam: Exam, into: Path) -> list[str]:
    """What is typed after `regard train RECIPE`; files that are cut come `into` this folder."""
    train = folder(DATA, exam.train)
    if isinstance(exam.valid, str):
        valid = folder(DATA, exam.valid)
    elif exam.sentences:
        train, valid = hold_out_sentences(train, folder(DATA, exam.sentences), exam.valid, into)
    else:
        train, valid = hold_out(train, exam.valid, into, exam.header)
    files = [f"data.train={train}", f"data.valid={valid}", f"data.test={folder(DATA, exam.test)}"]
    return [f"task.init_from={folder(MINILM)}", *files, *exam.settings]


def report(exam: Exam, runs: Sequence[Trained]) -> dict[str, Any]:
    scores = [float(run.scores[exam.metric]) for run in runs]
    mean = statistics.mean(scores)
    levels = {level: (least, mean >= least) for level, least in (("floor", exam.floor), ("goal", exam.goal)) if least is not None}
    return {
        "command": f"regard train {exam.recipe} task.init_from=FOLDER data.train={exam.train} ... {shlex.join(exam.settings)}",
        "metric": exam.metric,
        "mean": mean,
        "deviation": statistics.stdev(scores) if len(scores) > 1 else 0.0,
        "scores": scores,
        "validation": [run.validation for run in runs],
        "seconds": [round(run.seconds, 1) for run in runs],
        "trainings_at_once": AT_ONCE,
        "bars": {level: f"{least:g} {'met' if met else 'not met'}" for level, (least, met) in levels.items()},
    }


def recorded() -> dict[str, Any]:
    path = measure.RESULTS / f"understand.{'cuda' if CUDA else 'cpu'}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["data"] if path.is_file() else {}
    return found


def main(names: Sequence[str] = (), seeds: Sequence[int] = SEEDS, more: Sequence[str] = ()) -> None:
    """`more` are settings for all, for whoever tries something. A set that fails does not take the others with it."""
    if strangers := [name for name in names if name not in EXAMS]:
        raise UserError(f"there is no data set {strangers[0]!r}{nearest(strangers[0], EXAMS)}")
    failed = []
    with tempfile.TemporaryDirectory() as into, ProcessPoolExecutor(AT_ONCE, multiprocessing.get_context("spawn")) as pool:
        running = {}
        for name in names or EXAMS:
            (part := Path(into) / name).mkdir()
            given = [*settings(EXAMS[name], part), *more]
            running[name] = [pool.submit(trained, EXAMS[name].recipe, [*given, f"train.seed={seed}"]) for seed in seeds]
        for name, runs in running.items():
            try:
                found = recorded() | {name: report(EXAMS[name], [run.result() for run in runs])}
            except Exception:
                traceback.print_exc()
                failed.append(name)
                continue
            measure.write("understand", {"data": {each: found[each] for each in EXAMS if each in found}})
            print(f"{name}: {found[name]['metric']} {found[name]['mean']:.4f} of {found[name]['scores']}", flush=True)
    if failed:
        raise SystemExit(f"failed, with what is said above: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "understand" else ())
