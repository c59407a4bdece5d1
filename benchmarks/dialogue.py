"""Bots on DailyDialog: who finds the true reply among ten, and whether looking at turns beats reading them as one text.

    REGARD_DATA=FOLDER REGARD_MINILM=FOLDER python -m benchmarks.dialogue

1,736 dialogues of its training split, its validation and its test split, all bots side by side. Recall is of the true reply among
ten of the test set, the same ten for everybody; perplexity is of those that write, which have one vocabulary and one size. What
was set was chosen by the validation split. Some contexts are kept with what everybody replied, good or bad.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from benchmarks.dialogue_runs import FIND, FINDERS, READ, WRITERS, Made, trained
from benchmarks.measure import write
from benchmarks.real import DATA, MINILM, folder
from regard.data.pair import Pair
from regard.recipe import load_recipe
from regard.tasks.reply import read_test

EXAMPLES = 16
BOTS = (*WRITERS, *FINDERS)
RIVALS = (("HRAN", "turns joined"), ("HRAN, ten turns", "ten turns joined"))
FLOORS = {"found, from scratch": 0.35, "found, from MiniLM": 0.60}  # of recall@1 among ten


def data_here() -> list[str]:
    """Settings that name the data."""
    train = ",".join(str(folder(DATA, "dailydialog", f"{name}.txt.gz")) for name in ("train_part_1000", "train_reccon_736"))
    splits = {
        "train": train,
        "valid": folder(DATA, "dailydialog", "dev.txt.gz"),
        "test": folder(DATA, "dailydialog", "test.txt.gz"),
    }
    return [f"data.{split}={where}" for split, where in splits.items()]


def all_trained(data: Sequence[str], into: Path) -> Iterator[tuple[str, Made]]:
    """As they come, for some take ten times as long as others. On a GPU all at once, on a CPU as many as there are cores."""
    cores = os.cpu_count() or 1
    workers = len(BOTS) if torch.cuda.is_available() else min(len(BOTS), cores)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(trained, bot, data, into, max(1, cores // workers)): bot for bot in BOTS}
        for future in as_completed(running):
            print(f"{running[future]}: {future.result().scores}, {future.result().seconds:.0f} s", flush=True)
            yield running[future], future.result()


def examples(test: Sequence[Pair], made: Mapping[str, Made]) -> list[dict[str, Any]]:
    """Evenly from all of the test, so that nobody has chosen them."""
    rows = range(len(test) // (2 * EXAMPLES), len(test), len(test) // EXAMPLES)
    return [
        {"context": test[row].source, "true": test[row].target, "said": {bot: one.outputs[row] for bot, one in made.items()}}
        for row in list(rows)[:EXAMPLES]
    ]


def record(test: Sequence[Pair], made: Mapping[str, Made]) -> None:
    """Of the bots that are known by now."""
    bots = {
        bot: {
            **one.scores,
            "parameters": one.parameters,
            "training_seconds": one.seconds,
            "validation": one.validation,
            "settings": one.settings,
        }
        for bot, one in made.items()
    }
    floors = {bot: {"floor": floor, "found": bots[bot]["recall_1"]} for bot, floor in FLOORS.items() if bot in bots}
    perplexity: dict[str, Any] = {bot: bots[bot]["perplexity"] for bot in WRITERS if bot in bots}
    for hran, joined in RIVALS:
        if hran in bots and joined in bots:
            perplexity[f"{hran}: not above {joined}"] = perplexity[hran] <= perplexity[joined]
    write("dialogue", {"bots": bots, "recall_1": floors, "perplexity": perplexity, "examples": examples(test, made)})


def main() -> None:
    folder(MINILM)
    data, made = data_here(), dict[str, Made]()
    test = read_test(load_recipe("chat-retrieval", [READ[0], FIND[0], *data]))
    with tempfile.TemporaryDirectory() as into:
        for bot, one in all_trained(data, Path(into)):
            made[bot] = one
            record(test, {each: made[each] for each in BOTS if each in made})


if __name__ == "__main__":
    main()
