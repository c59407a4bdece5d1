"""The tasks of the Long Range Arena and one training of each, where another process finds them (see `lra`)."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from benchmarks.real import DATA, folder
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import Outcome, train_run
from regard.runs.init_recipe import load_recipe_to_train


@dataclass(frozen=True)
class Exam:
    """A task of the arena, the files it needs below REGARD_DATA, and how long is long enough for a first look."""

    recipe: str
    share: float  # of symbols to be filled in, where training begins with that
    files: dict[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    short: tuple[str, ...] = ()  # on a GPU, in about a minute each; on a CPU these are still hours
    easier: dict[str, int] = field(default_factory=dict)  # sets to learn first, each from the last, and for how many epochs
    eased: tuple[str, ...] = ()  # of the model that begins with these


EXAMS = {
    "listops": Exam("lra-listops", 0.1, short=("train.steps=5000",)),
    "text": Exam(
        "lra-text",
        0.15,
        {"data.train": "imdb/train.jsonl.gz", "data.test": "imdb/test.jsonl.gz"},
        short=("train.steps=3000", "train.warmup=600", "train.validate_every=300", "train.checkpoint_every=300"),
    ),
    "retrieval": Exam(
        "lra-retrieval",
        0.15,
        {
            "data.train": "aan/new_aan_pairs.train.tsv",
            "data.valid": "aan/new_aan_pairs.eval.tsv",
            "data.test": "aan/new_aan_pairs.test.tsv",
        },
        settings=("data.columns=3,4,0",),
        short=("train.warmup=800",),
    ),
    "pixels": Exam(
        "lra-pixels",
        0.5,
        {"data.train": "cifar10_jpg/train.tar.gz", "data.test": "cifar10_jpg/test.tar.gz"},
        short=("train.epochs=60", "train.warmup=100"),
    ),
    "pathfinder": Exam(
        "lra-pathfinder",
        0.5,
        short=("train.epochs=20",),
        easier={f"builtin:pathfinder@dashes={dashes}": epochs for dashes, epochs in ((2, 3), (4, 2), (6, 2), (9, 2))},
        eased=(
            *("model.columns=32", "model.pooled_norm=batch"),
            *("model.width=128", "model.feedforward=256", "model.dropout=0.0"),
            *("train.tokens_per_batch=131328", "train.clip=1.0", "train.epochs=12"),
        ),
    ),
}
VARIANTS: dict[str, tuple[str, ...]] = {
    "full": (),
    "window": ("model.visibility=window(64)",),
    "bigbird": ("model.visibility=bigbird",),
    "performer": ("model.mixer=favor",),
    "linear-relu": ("model.mixer=linear-relu",),
    "conv": ("model.mixer=conv",),
    "denoised": (),  # full attention, and the task's own inputs filled in first
    "eased": (),  # full attention, inputs filled in first, then easier sets, with what a task has for that
}
SMALL_VARIANTS = {name: chosen for name, chosen in VARIANTS.items() if name != "eased"} | {  # for inputs of tens of symbols
    "window": ("model.visibility=window(8)",),
    "bigbird": ("model.visibility=bigbird(4)",),
    "performer": ("model.mixer=favor", "model.features=64"),
}


def files_of(exam: Exam) -> list[str]:
    """As settings; refused where a file is missing."""
    return [f"{key}={folder(DATA, *path.split('/'))}" for key, path in exam.files.items()]


def known(task: str, variant: str) -> bool:
    """Is there such a thing? Not every task has easier sets."""
    return variant != "eased" or bool(EXAMS[task].easier)


def chosen(exam: Exam, variant: str) -> tuple[str, ...]:
    return exam.eased if variant == "eased" else VARIANTS[variant]


def examine(task: str, variant: str, seed: int, given: Sequence[str], keep: str = "") -> dict[str, Any]:
    """One training, in a process of its own, and what it came to. Runs are kept in a folder, where one is named, and resumed."""
    exam = EXAMS[task]
    settings = [*exam.settings, *exam.short, *chosen(exam, variant), *given, f"train.seed={seed}"]
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory() as name:
        outcome = sat(exam, settings, _before(exam, variant), Path(name) / f"{task}-{variant}-{seed}")
    return told(outcome, seed, settled([*exam.short, *chosen(exam, variant), *given]))


def examine_small(task: str, variant: str, seed: int, given: Sequence[str]) -> dict[str, Any]:
    """The same at the size that the recipe's head has for a CPU."""
    exam = EXAMS[task]
    settings = [*typed_for_a_cpu(exam.recipe), *SMALL_VARIANTS[variant], *given]
    torch.set_num_threads(1)  # several trainings share a machine
    with tempfile.TemporaryDirectory() as name:
        outcome = sat(exam, [*settings, f"train.seed={seed}"], _before(exam, variant), Path(name))
    return told(outcome, seed, settled([*SMALL_VARIANTS[variant], *given]))


def typed_for_a_cpu(recipe: str) -> list[str]:
    """The settings of the command in a recipe's head that a CPU does in minutes."""
    lines = resources.files("regard.runs").joinpath("recipes", f"{recipe}.toml").read_text("utf-8").splitlines()
    (command,) = [line for line in lines if line.startswith(f"#   regard train {recipe} ") and "train.precision=fp32" in line]
    return command.split()[4:]


def sat(exam: Exam, settings: Sequence[str], before: Sequence[Sequence[str]], place: Path) -> Outcome:
    """Trained, after what comes before it, each from the last."""
    begun = list[str]()
    for number, first in enumerate(before):
        _train(exam.recipe, [*settings, *first, "data.test=", *begun], into := place / f"before-{number}")
        begun = [f"task.init_from={into}"]
    return _train(exam.recipe, [*settings, *begun], place / "run")


def told(outcome: Outcome, seed: int, given: Sequence[str]) -> dict[str, Any]:
    assert outcome.result is not None  # there is a test set
    progress, recipe, scores = outcome.progress, outcome.prepared.recipe, outcome.result.as_dict()
    return {
        "seed": seed,
        "accuracy": scores["accuracy"],
        "one_answer": scores["constant"],
        "validation_loss": progress.best_nll,
        "steps": progress.step,
        "seconds": round(progress.seconds, 1),
        "steps_per_second": progress.step / progress.seconds,
        "peak_bytes": _peak(),
        "parameters": sum(p.numel() for p in outcome.prepared.model().parameters()),
        "trained_on": outcome.prepared.amounts()["train"],
        "tokens_per_batch": recipe.train.tokens_per_batch,
        "given": list(given),
    }


def settled(settings: Sequence[str]) -> list[str]:
    """Each key once, as it was set last."""
    return list({setting.partition("=")[0]: setting for setting in settings}.values())


def _before(exam: Exam, variant: str) -> list[list[str]]:
    """Settings of what is trained before the task itself, each from the last."""
    filled = ["task.name=denoising", f"objective.mask_rate={exam.share}"]
    if variant == "denoised":
        return [filled]
    if variant == "eased":
        easier = [
            [f"data.train={name}/train", f"data.valid={name}/valid", f"train.epochs={epochs}"]
            for name, epochs in exam.easier.items()
        ]
        return [[*filled, "train.epochs=2"], *easier]
    return []


def _train(recipe: str, settings: Sequence[str], into: Path) -> Outcome:
    return train_run(load_recipe_to_train(recipe, settings), into, DEVICE, lambda line: None)


def _peak() -> int:
    """Of torch on a GPU, of the whole process elsewhere."""
    return torch.cuda.max_memory_allocated() if CUDA else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
