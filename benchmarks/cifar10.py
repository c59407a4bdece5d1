"""CIFAR-10 from scratch by the commands of the recipes: a ViT, a compact one, a distilled one, one in a minute; three seeds.

    python -m benchmarks.cifar10 data=FOLDER keep=FOLDER [vit compact teacher distilled alone minute] [seeds=1,2,3] [minutes=9]
        [section.key=value ...]

`data` has train.npz and test.npz (../shared/data/get.py cifar10 FOLDER). The seeds of a cell train side by side, each by `regard
train` in a process of its own with its run below `keep`; after `minutes` all are asked to save and stop, and the same command
goes on where they stood. Test images are scored once, when a training has ended; validation images (2% of training) choose
nothing but the best weights. `alone` is `distilled` without its teacher: the same ViT, epochs and augmentation.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from benchmarks import measure
from benchmarks.lra import typed, whole
from benchmarks.steps import CUDA
from regard.commands.evaluate import score_run
from regard.core.errors import UserError
from regard.runs.folder import Run


class Cell(NamedTuple):
    recipe: str
    settings: tuple[str, ...]
    what: str
    floor: float
    goal: float
    minutes: float = 0.0  # of training, at most, of one seed alone


CELLS = {
    "vit": Cell("vit-cifar10", (), "ViT-Lite-7/4, 200 epochs (published 91.38)", 90.0, 91.5, 4),
    "compact": Cell("cct-cifar10", (), "CCT-7/3x1, 300 epochs (published 96.53; 94.78 after 200)", 94.0, 95.5),
    "teacher": Cell("convnet-cifar10", (), "the convolutional teacher", 0, 0),
    "distilled": Cell("deit-cifar10", (), "distilled ViT-Lite-7/4, 100 epochs: a point more than alone", 0, 0),
    "alone": Cell("vit-cifar10", ("train.epochs=100",), "ViT-Lite-7/4, 100 epochs, without a teacher", 0, 0),
    "minute": Cell(
        "cct-cifar10",
        ("train.epochs=40", "train.examples_per_batch=512", "train.learning_rate=3e-3", "data.mixup=0", "model.drop_path=0"),
        "CCT-7/3x1 in a minute of training",
        0,
        94.0,
        1,
    ),
}
NEEDS = {"distilled": "teacher"}  # trained before


def main(arguments: Sequence[str] = ()) -> None:
    defaults = {"data": "", "keep": "runs/cifar10", "seeds": "1,2,3", "minutes": "9", "record": "yes"}
    cells, chosen, settings = typed(arguments, CELLS, defaults)
    data = Path(chosen["data"] or ".")
    if missing := [name for name in ("train.npz", "test.npz") if not (data / name).is_file()]:
        raise UserError(f"data={data} has no {missing[0]}; make it by 'python3 get.py cifar10 FOLDER', and type data=FOLDER.")
    until = time.monotonic() + 60 * whole(chosen["minutes"])[0]
    keep, seeds = Path(chosen["keep"]), whole(chosen["seeds"])
    for name in cells or CELLS:
        for cell in dict.fromkeys((*([NEEDS[name]] if name in NEEDS else []), name)):
            if not train(cell, seeds, data, keep, settings, until):
                print(f"{cell} is not done; the same command goes on with it", flush=True)
                return
        score(name, seeds, data, keep, record=chosen["record"] == "yes" and not settings)


def train(name: str, seeds: Sequence[int], data: Path, keep: Path, settings: Sequence[str], until: float) -> bool:
    """Train all seeds side by side, or go on with them; return whether all have ended."""
    jobs = {}
    for seed in seeds:
        cell, folder = CELLS[name], keep / f"{name}-{seed}"
        given = [
            f"data.train={data / 'train.npz'}",
            f"data.test={data / 'test.npz'}",
            f"train.seed={seed}",
            "train.log_every=200",
        ]
        if name in NEEDS:
            given.append(f"objective.teacher={keep / f'{NEEDS[name]}-{seed}'}")
        if (folder / "README.md").is_file():
            continue  # it has ended: its model card is written last
        folder.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "regard", "train", cell.recipe, *given, *cell.settings, *settings, "--out", str(folder)]
        log = (keep / f"{name}-{seed}.log").open("a", encoding="utf-8")
        jobs[seed] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    while any(job.poll() is None for job in jobs.values()):
        if time.monotonic() > until:
            for job in jobs.values():
                if job.poll() is None:
                    job.send_signal(signal.SIGINT)
            for job in jobs.values():
                job.wait()
            return False
        time.sleep(0.5)
    if failed := [seed for seed, job in jobs.items() if job.returncode]:
        raise UserError(f"{name} with seed {failed[0]} failed; its last words are in {keep / f'{name}-{failed[0]}.log'}.")
    return True


def score(name: str, seeds: Sequence[int], data: Path, keep: Path, record: bool = True) -> None:
    """Read what each run has scored on the test images, and record it."""
    found = {}
    for seed in seeds:
        folder = keep / f"{name}-{seed}"
        result = score_run(folder, [f"data.test={data / 'test.npz'}"], None, None).as_dict()
        last = Run.open(folder).store().newest("step")
        assert last is not None
        seconds = last.state["progress"]["seconds"]
        found[str(seed)] = {"accuracy": 100 * result["accuracy"], "seconds": round(seconds, 1), "steps": last.step}
    each = [run["accuracy"] for run in found.values()]
    deviation = f" ±{stdev(each):.2f}" if len(each) > 1 else ""
    print(f"{name}: {mean(each):.2f}%{deviation} ({', '.join(f'{a:.2f}' for a in each)})", flush=True)
    if record:
        cells = recorded() | {name: found}
        setting = "Commands of the recipes; test images scored once, by the weights that are best in validation. Seeds of a cell "
        setting += "trained side by side on one device: seconds are those of a process beside two others."
        tables = [table({cell: cells[cell] for cell in CELLS if cell in cells})]
        told = {"title": "CIFAR-10 from scratch", "setting": setting, "versions": {}, "rows": [], "curves": [], "tables": tables}
        measure.write("cifar10", {**told, "data": cells})


def recorded() -> dict[str, Any]:
    path = measure.RESULTS / f"cifar10.{'cuda' if CUDA else 'cpu'}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["data"] if path.is_file() else {}
    return found


def table(cells: Mapping[str, Mapping[str, Mapping[str, float]]]) -> measure.Table:
    rows = []
    for name, runs in cells.items():
        cell, each = CELLS[name], [run["accuracy"] for run in runs.values()]
        bars = [
            f"{level} {bar:g} {'met' if mean(each) >= bar else 'not met'}"
            for level, bar in (("floor", cell.floor), ("goal", cell.goal))
            if bar
        ]
        spread = f" ±{stdev(each):.2f}" if len(each) > 1 else ""
        seconds = ", ".join(f"{run['seconds']:.0f}" for run in runs.values())
        rows.append([cell.what, f"{mean(each):.2f}{spread} ({', '.join(f'{a:.2f}' for a in each)})", seconds, "; ".join(bars)])
    if {"distilled", "alone"} <= set(cells):
        gain = mean(r["accuracy"] for r in cells["distilled"].values()) - mean(r["accuracy"] for r in cells["alone"].values())
        rows.append(["distilled less alone", f"{gain:+.2f}", "", f"floor 1 {'met' if gain >= 1 else 'not met'}"])
    return measure.Table(
        title="Test accuracy in %", columns=["model", "mean and seeds", "seconds of training", "bars"], rows=rows
    )


if __name__ == "__main__":
    main(sys.argv[1:])
