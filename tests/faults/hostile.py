"""Files that were made to do harm, or that a disk damaged: a seeded corpus of them, with the commands that each is sent through.

Every group begins with what somebody once thought of (bombs, pipes, links, escapes, panics) and goes on with seeded damage of
good files. `python -m tests.faults.hostile --seed 7 --count 1000` tries others than the tests do, and keeps those that fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import torch

from tests.command import regard, tiny, trained
from tests.faults.hostile_bases import CPU, Cases, classifier_folder, gpt_folder, gpt_run, kept, label_run, opened
from tests.faults.hostile_data import data_cases, images_cases, vectors_cases
from tests.faults.hostile_public import config_cases, folder_cases, vocabulary_cases, weights_cases
from tests.faults.hostile_runs import asked, runs_cases, studio_cases
from tests.faults.hostile_tokenizers import tokenizer_cases
from tests.faults.sandbox import Make, faults


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    make: Make


GROUPS: dict[str, tuple[Callable[[Random], Cases], int]] = {
    "config": (config_cases, 72),
    "tokenizer": (tokenizer_cases, 104),
    "vocabulary": (vocabulary_cases, 42),
    "weights": (weights_cases, 56),
    "folder": (folder_cases, 41),
    "data": (data_cases, 104),
    "vectors": (vectors_cases, 52),
    "images": (images_cases, 36),
    "runs": (runs_cases, 70),
    "studio": (studio_cases, 31),
}
"""By name: what makes its cases, and how many of them the tests take."""


def corpus(group: str, seed: int = 0, count: int | None = None) -> list[Case]:
    """The first cases of a group; the same for the same seed."""
    make, usual = GROUPS[group]
    return [
        Case(group, f"{n}. {name}", deed)
        for n, (name, deed) in enumerate(islice(make(Random(f"{group} {seed}")), count or usual))
    ]


def warm() -> None:
    """Import and run, in this process, what every case would otherwise do again."""
    torch.set_num_threads(1)
    for base in (gpt_folder, classifier_folder):
        for command in opened(base(), kept() / f"run-of-{base().name}", base is gpt_folder):
            regard(*command)
    for run in (trained(), label_run(), gpt_run()):
        regard("predict", run, "the cat", *CPU)
    asked(gpt_run())
    regard("lens", trained(), "the cat", *CPU)
    regard("explain", tiny())


def told_faults(cases: Sequence[Case], place: Path) -> list[str]:
    """What is wrong with how their commands ended, a line or a few for each."""
    found = faults([case.make for case in cases], place)
    return [f"{cases[number].group}, {cases[number].name}: {fault}" for number, fault in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, help="of each group; by default as many as the tests take")
    parser.add_argument("--group", choices=list(GROUPS), action="append")
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="regard-hostile-"))
    os.environ |= {"REGARD_CACHE": str(place / "cache"), "HF_HUB_OFFLINE": "1"}
    warm()
    failed = 0
    for group in chosen.group or GROUPS:
        cases, before = corpus(group, chosen.seed, chosen.count), os.times()
        (place / group).mkdir()
        for said in told_faults(cases, place / group):
            failed += 1
            print(said, flush=True)
        seconds = sum(os.times()[:4]) - sum(before[:4])
        print(f"{group}, seed {chosen.seed}: {len(cases)} cases in {seconds:.1f} s of processor time", flush=True)
    print(f"{failed} faults; the files are in {place}" if failed else "no faults")
    if not failed:
        shutil.rmtree(place)
    sys.exit(min(1, failed))


if __name__ == "__main__":
    main()
