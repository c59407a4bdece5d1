"""Bots on DailyDialog: who finds the true reply among ten, and whether looking at turns beats reading them as one text.

    REGARD_DATA=FOLDER REGARD_MINILM=FOLDER regard bench dialogue [hran turns-joined ...]

1,736 dialogues of its training split, its validation and its test split, all bots side by side; those that are named are measured
again, the others stay as they were recorded. Recall is of the true reply among ten of the test set, the same ten for everybody;
perplexity is of those that write, which have one vocabulary and one size. What was set was chosen by the validation split. Some
contexts are kept with what everybody replied, good or bad.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.dialogue_runs import FIND, FINDERS, READ, WRITERS, Made, trained
from benchmarks.real import DATA, MINILM, folder
from benchmarks.steps import CUDA
from regard.data.pair import Pair
from regard.errors import UserError, nearest
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


def all_trained(bots: Sequence[str], data: Sequence[str], into: Path) -> Iterator[tuple[str, Made]]:
    """As they come, for some take ten times as long as others. On a GPU all at once, on a CPU as many as there are cores."""
    cores = os.cpu_count() or 1
    workers = len(bots) if CUDA else min(len(bots), cores)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(trained, bot, data, into, max(1, cores // workers)): bot for bot in bots}
        for future in as_completed(running):
            print(f"{running[future]}: {future.result().scores}, {future.result().seconds:.0f} s", flush=True)
            yield running[future], future.result()


def recorded() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is known of each bot, and the examples."""
    path = measure.RESULTS / f"dialogue.{'cuda' if CUDA else 'cpu'}.json"
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {"bots": {}, "examples": []}
    return found["bots"], found["examples"]


def record(test: Sequence[Pair], bot: str, made: Made) -> None:
    """One more bot, in the place of what was known of it."""
    bots, examples = recorded()
    about = {"parameters": made.parameters, "training_seconds": made.seconds, "validation": made.validation}
    bots[bot] = {**made.scores, **about, "settings": made.settings}
    bots = {each: bots[each] for each in BOTS if each in bots}
    said = {example["context"]: example["said"] for example in examples}
    # evenly from all of the test, so that nobody has chosen them
    rows = list(range(len(test) // (2 * EXAMPLES), len(test), len(test) // EXAMPLES))[:EXAMPLES]
    examples = [
        {"context": test[row].source, "true": test[row].target, "said": said.get(test[row].source, {}) | {bot: made.outputs[row]}}
        for row in rows
    ]
    floors = {each: {"floor": floor, "found": bots[each]["recall_1"]} for each, floor in FLOORS.items() if each in bots}
    perplexity: dict[str, Any] = {each: bots[each]["perplexity"] for each in WRITERS if each in bots}
    for hran, joined in RIVALS:
        if hran in bots and joined in bots and _alike(bots[hran], bots[joined]):
            perplexity[f"{hran}: not above {joined}"] = perplexity[hran] <= perplexity[joined]
    measure.write("dialogue", {"bots": bots, "recall_1": floors, "perplexity": perplexity, "examples": examples})


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Trained with the same settings, but for the model and whether it was compiled: else nothing is compared, as when one of two
    was measured again."""
    own = ("model.", "train.compile")
    trained = [sorted(setting for setting in bot["settings"] if not setting.startswith(own)) for bot in (one, other)]
    return trained[0] == trained[1]


def typed(bot: str) -> str:
    """Its name on a command line."""
    return bot.replace(",", "").replace(" ", "-").lower()


def main(arguments: Sequence[str] = ()) -> None:
    names = {typed(bot): bot for bot in BOTS}
    if strangers := [name for name in arguments if name not in names]:
        raise UserError(f"there is no bot {strangers[0]!r} here{nearest(strangers[0], names)}")
    bots, data = [names[name] for name in arguments] or list(BOTS), data_here()
    if any("MiniLM" in bot for bot in bots):
        folder(MINILM)
    test = read_test(load_recipe("chat-retrieval", [READ[0], FIND[0], *data]))
    with tempfile.TemporaryDirectory() as into:
        for bot, made in all_trained(bots, data, Path(into)):
            record(test, bot, made)


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "dialogue" else ())
