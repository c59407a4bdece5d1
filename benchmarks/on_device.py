"""Everything that needs a GPU, in order of importance, in the time of one lease: tests, races, a timeline, AESLC, LoRA, images.

    python -m benchmarks.on_device --out FOLDER --data FOLDER --minilm FOLDER --seconds 560
    python -m benchmarks.on_device --out FOLDER --after EARLIER        goes on: what the folder EARLIER says is done is left out

Every part is a process with a time limit of its own. FOLDER has, after every part and every few seconds of it, what there is
until then, in at most eight files: `state.json` (parts that are done), `tests.log` and `session.log` (what they said),
`results.tar.gz` (benchmarks/results of this device, to be unpacked there), `runs.tar.gz` (trainings of AESLC that have ended) and
the timeline's. `--tiny` tries it all on a CPU in small.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.measure import RESULTS

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "build" / "on_device"  # trainings of AESLC; git ignores them
NEEDS = ("data", "minilm", "cifar10", "mnist")  # folders that are given
LEAST = 20  # seconds without which no part is begun
SAVED_EVERY = 15  # seconds
LARGEST = 15 << 20  # bytes of a file that comes back from a lent machine


class Part(NamedTuple):
    """A command, and how long it may take; one of several cells goes on with those that are not recorded yet."""

    seconds: int
    command: tuple[str, ...]
    tiny: tuple[str, ...] = ()  # added where it is only tried; nothing: it has no small form
    needs: tuple[str, ...] = ()  # folders


AESLC = ("-m", "benchmarks.aeslc", "--data", "{data}", "--into", "{runs}")
PIXELS = ("--mnist", "{mnist}", "--cifar", "{cifar10}")
PARTS = {
    "tests": Part(400, ("-m", "pytest", "-m", "gpu", "-n", "6", "-rf", "--tb=short"), ("-k", "cuda_graph", "-n", "1")),
    "generate": Part(420, ("-m", "benchmarks.public_generate", "--missing"), ("--tiny", "--rounds", "2")),
    "train": Part(300, ("-m", "benchmarks.public_train", "--missing"), ("--tiny", "--rounds", "2")),
    "greedy": Part(240, ("-m", "benchmarks.decode_greedy")),
    "timeline": Part(120, ("-m", "benchmarks.timeline", "--out", "{out}"), ("--tiny",)),
    "sparse": Part(240, ("-m", "benchmarks.sparse")),
    "favor": Part(180, ("-m", "benchmarks.favor")),
    "aeslc": Part(560, (*AESLC, "--part", "compare"), ("--tiny", "--seeds", "1", "--noises", "infilling"), ("data",)),
    "order": Part(560, (*AESLC, "--part", "order"), ("--tiny", "--seeds", "1", "--noises", "masking"), ("data",)),
    "lora": Part(400, ("-m", "benchmarks.lora", "1", "2", "3"), (), ("data", "minilm")),
    "image speed": Part(300, ("-m", "benchmarks.images_speed")),
    "sampling": Part(240, ("-m", "benchmarks.pixel_sampling")),
    "perceiver": Part(120, ("-m", "benchmarks.perceiver_cost")),
    "cifar10": Part(570, ("-m", "benchmarks.cifar10", "data={cifar10}", "keep={runs}/cifar10", "minutes=9"), (), ("cifar10",)),
    "pixels": Part(570, ("-m", "benchmarks.pixels", *PIXELS, "--runs", "{runs}/pixels"), (), ("mnist", "cifar10")),
}


class Session:
    """The parts that are done, and the time that is left."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.out = options, options.out
        self.ends = time.monotonic() + options.seconds
        self.out.mkdir(parents=True, exist_ok=True)
        self.done: dict[str, dict[str, Any]] = {}
        self.began = time.time()
        for folder in [self.out, *options.after]:
            self._take(folder)

    def _take(self, folder: Path) -> None:
        """Go on from what an earlier session left."""
        if (state := folder / "state.json").is_file():
            self.done |= {name: told for name, told in json.loads(state.read_text("utf-8")).items() if told["done"]}
        for name, where in (("results.tar.gz", RESULTS), ("runs.tar.gz", RUNS)):
            if (folder / name).is_file() and not self.options.tiny:
                where.mkdir(parents=True, exist_ok=True)
                with tarfile.open(folder / name) as packed:
                    packed.extractall(where, filter="data")

    def run(self, name: str, part: Part) -> None:
        limit = min(part.seconds, self.ends - time.monotonic())
        folders = {"out": self.out, "runs": self.out / "runs" if self.options.tiny else RUNS}
        folders |= {need: getattr(self.options, need) for need in NEEDS}
        if missing := [f"--{need}" for need in part.needs if folders[need] is None]:
            self._say(f"{name}: left out, without {' and '.join(missing)}")
        elif self.options.tiny and not part.tiny:
            self._say(f"{name}: has no small form")
        elif name in self.done:
            self._say(f"{name}: done before, in {self.done[name]['seconds']:.0f} s")
        elif limit < LEAST:
            self._say(f"{name}: no time is left")
        else:
            self._begin(name, part, limit, folders)

    def _begin(self, name: str, part: Part, limit: float, folders: dict[str, Path | None]) -> None:
        given = [*part.command, *(part.tiny if self.options.tiny else ())]
        command = [sys.executable, *(word.format(**folders) if "{" in word else word for word in given)]
        environment = os.environ | {"PYTHONUNBUFFERED": "1", "REGARD_DATA": str(folders["data"] or ""), "HF_HUB_OFFLINE": "1"}
        if folders["minilm"]:
            environment["REGARD_MINILM"] = str(folders["minilm"])
        self._say(f"\n==== {name}, at most {limit:.0f} s: {' '.join(command[1:])}")
        began = time.monotonic()
        with (self.out / ("tests.log" if name == "tests" else "session.log")).open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
            code = self._wait(process, began + limit)
        seconds = time.monotonic() - began
        ended = "cut off" if code is None else f"ended with {code}"
        if code == 0 or (name == "tests" and code == 1):  # tests that fail have been run
            self.done[name] = {"done": True, "seconds": seconds, "code": code}
        self._say(f"==== {name} {ended} after {seconds:.0f} s")
        self.save()

    def _wait(self, process: subprocess.Popen[bytes], until: float) -> int | None:
        """Wait, and save what there is meanwhile; None: it was cut off, with all that it started."""
        while time.monotonic() < until:
            try:
                return process.wait(min(SAVED_EVERY, max(0.1, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                self.save(trainings=False)
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)  # a training saves a checkpoint
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return None

    def save(self, trainings: bool = True) -> None:
        (self.out / "state.json").write_text(json.dumps(self.done, indent=2) + "\n", "utf-8")
        if self.options.tiny:
            return
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        pack(self.out / "results.tar.gz", [path for path in RESULTS.glob(f"*.{kind}.json") if path.stat().st_mtime >= self.began])
        if trainings and RUNS.is_dir():
            pack(self.out / "runs.tar.gz", [*RUNS.glob("*-*-*.json")])

    def _say(self, line: str) -> None:
        print(line, flush=True)
        with (self.out / "session.log").open("a") as log:
            log.write(line + "\n")


def pack(path: Path, files: Sequence[Path]) -> None:
    """Write an archive in the place of the old one; names are relative to the folder of results, or of runs."""
    if not files:
        return
    writing = path.with_suffix(".new")
    with tarfile.open(writing, "w:gz") as packed:
        for file in files:
            packed.add(file, file.relative_to(RUNS if RUNS in file.parents else RESULTS))
    if writing.stat().st_size <= LARGEST:
        writing.replace(path)
    writing.unlink(missing_ok=True)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder for what is found")
    parser.add_argument("--after", type=Path, nargs="*", default=[], help="folders of earlier sessions, to go on from")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], default=[*PARTS], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=560, help="all in all")
    parser.add_argument("--data", type=Path, help="a folder with aeslc, imdb_full, wikitext-2 and sst2")
    parser.add_argument("--minilm", type=Path, help="a folder with MiniLM's weights")
    parser.add_argument("--cifar10", type=Path, help="a folder with CIFAR-10's train.npz and test.npz")
    parser.add_argument("--mnist", type=Path, help="a folder with MNIST's idx files")
    parser.add_argument("--tiny", action="store_true", help="small models, to try whether everything runs; nothing is recorded")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] = ()) -> None:
    options = parsed(arguments)
    session = Session(options)
    for name in options.parts:
        session.run(name, PARTS[name])
    session.save()


if __name__ == "__main__":
    main(sys.argv[1:])
