"""Start-up: how long commands take beside `python -c "import torch"`, each in a process of its own.

python -m benchmarks.start_up [RUN]      of a run that 'regard demo' made; by default one is trained first
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.measure import Table, alternate, summary, write
from regard.commands.train import train_run
from regard.runs.folder import choose_device
from regard.runs.recipe import load_recipe

ROUNDS = 5
TORCH = 'python -c "import torch"'
SENTENCE = "the animal did not cross the street because it was too tired"
PREDICT = f'regard predict RUN "{SENTENCE}"'
MOST = {"regard --help": 0.1, "regard recipes": 0.25, "regard train translat": 0.25, PREDICT: 1.7}  # times importing torch
ENDS = {"regard train translat": 2}  # exit codes other than 0
SETTING = "Whole processes, from their start to their end, one at a time and in turn; RUN is the demo's, 'regard train translat' "
SETTING += "is refused as mistyped."


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "run"
        if len(sys.argv) == 1:
            train_run(load_recipe("translate"), run, choose_device("cpu"), lambda line: None)
        seconds = alternate({name: partial(call, name, command) for name, command in commands(run).items()}, ROUNDS, warm_up=1)
    for cells in (found := table(seconds))["rows"]:
        print("  ".join(cells))
    print(f"written to {write('start_up', title='Start-up', setting=SETTING, rows=[], tables=[found], versions={}).name}")


def commands(run: Path) -> dict[str, list[str]]:
    """What is typed, as it is shown and as it is run."""
    regard = [sys.executable, "-m", "regard"]
    return {
        TORCH: [sys.executable, "-c", "import torch"],
        "regard --help": [*regard, "--help"],
        "regard recipes": [*regard, "recipes"],
        "regard train translat": [*regard, "train", "translat"],
        PREDICT: [*regard, "predict", str(run), SENTENCE],
    }


def call(name: str, command: Sequence[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != ENDS.get(name, 0):
        raise RuntimeError(f"{name} ended with {ended.returncode}: {ended.stderr}")


def table(seconds: Mapping[str, Sequence[float]]) -> Table:
    """Medians with half the distance between their quartiles, and each beside torch: the median of the rounds' ratios."""
    rows = []
    for name, values in seconds.items():
        taken, ratio = summary(values), statistics.median(ours / torch for ours, torch in zip(values, seconds[TORCH]))
        spread = 50 * (taken["upper_quartile"] - taken["lower_quartile"]) / taken["median"]
        bar = f"{MOST[name]:g}× {'met' if ratio <= MOST[name] else 'not met'}" if name in MOST else ""
        shown = f"{name}, a typo" if name in ENDS else f"`{name}`"  # documents quote only commands that work
        rows.append([shown, f"{taken['median']:.2f} s ±{spread:.0f}%", f"{ratio:.2f}×", bar])
    return {"title": "Seconds of a whole command", "columns": ["", "median", "of importing torch", "at most"], "rows": rows}


if __name__ == "__main__":
    main()
