"""Files visited: how many files of the package a reader opens to follow a call, counted by running it.

python -m benchmarks.files_visited [RUN]      of a run that 'regard demo' made; by default one is trained first

A file counts as visited when one of its functions is called (`sys.setprofile`, in every thread). Bodies of modules and of classes
do not count: importing a file is not reading it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.measure import Table, write

SENTENCE = "the animal did not cross the street because it was too tired"
LOGITS, PREDICT, TRAIN = "text to logits of the Transformer", "regard predict", "regard train translate, to the first step"
MOST = {LOGITS: (10, 8), PREDICT: (45, 35), TRAIN: (60, 45)}  # floor and goal
SETTING = "Distinct files of src/regard with a function that is called; the run is the demo's."


class Visits:
    """The files of the package whose functions are called while this is the profiler."""

    def __init__(self, package: Path, until_step: bool = False) -> None:
        self.root, self.until_step, self.found = f"{package}{os.sep}", until_step, set[str]()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self.root) and code.co_flags & 2:  # CO_NEWLOCALS: a function
            if code.co_name != "<module>":
                self.found.add(code.co_filename.removeprefix(self.root))
        elif event == "return" and self.until_step and code.co_name == "step" and "torch/optim/" in code.co_filename:
            self.report()
            os._exit(0)  # the first step is done: what comes behind it is not asked for

    def start(self) -> None:
        threading.setprofile(self)
        sys.setprofile(self)

    def report(self) -> None:
        sys.setprofile(None)
        print(json.dumps(sorted(self.found)), file=sys.stderr, flush=True)


def visit(walk: str, run: str, folder: str) -> None:
    """Make one of the calls in this process and report its files as JSON, the last line of the error stream."""
    import regard

    visits = Visits(Path(regard.__file__).parent, until_step=walk == TRAIN)
    if walk == LOGITS:
        translator = regard.load(run, "cpu")
        visits.start()
        forward(translator)
    else:
        from regard.cli import main as command_line

        sys.argv = ["regard", "predict", run, SENTENCE]
        if walk == TRAIN:
            sys.argv = ["regard", "train", "translate", "--out", str(Path(folder) / "visited"), "--device", "cpu"]
        visits.start()
        try:
            command_line()
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise
    visits.report()


def forward(translator: Any) -> None:
    """Encode a sentence and compute the logits of its translation's first token."""
    import torch

    ids = translator.tokenizers.source.encode(SENTENCE)
    translator.model(torch.tensor([ids]), torch.tensor([len(ids)]), torch.tensor([[1]]))


def files(walk: str, run: Path, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.files_visited", "--visit", walk, str(run), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(ended.stderr.splitlines()[-1])
    return found


def table(found: dict[str, list[str]]) -> Table:
    rows = []
    for walk, visited in found.items():
        floor, goal = MOST[walk]
        met = "goal met" if len(visited) <= goal else "floor met" if len(visited) <= floor else "not met"
        rows.append([walk, str(len(visited)), f"{floor}, goal {goal}", met])
    return {"title": "Files visited", "columns": ["call", "files", "at most", ""], "rows": rows}


def main() -> None:
    if sys.argv[1:2] == ["--visit"]:
        visit(*sys.argv[2:])
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "run"
        if len(sys.argv) == 1:
            subprocess.run(
                [sys.executable, "-m", "regard", "train", "translate", "--out", str(run)], check=True, capture_output=True
            )
        found = {walk: files(walk, run, folder) for walk in MOST}
    for walk, visited in found.items():
        print(f"{walk}: {len(visited)}\n  " + "\n  ".join(visited))
    written = write("files_visited", title="Files visited", setting=SETTING, rows=[], tables=[table(found)], versions={})
    print(f"written to {written.name}")


if __name__ == "__main__":
    main()
