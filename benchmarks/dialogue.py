"""Bots on DailyDialog: who finds the true reply among ten, and whether looking at turns beats reading them as one text.

    REGARD_DATA=FOLDER REGARD_MINILM=FOLDER regard bench dialogue [hran turns-joined ...] [seeds=1,2,3]

1,736 dialogues of its training split, its validation and its test split, all bots side by side; those that are named are measured
again, the others stay as they were recorded. With other seeds than the first, only scores are added. Recall is of the true reply
among ten of the test set, the same ten for everybody; perplexity is of those that write, which have one vocabulary and one size.
What was set was chosen by the validation split. Some contexts are kept with what everybody replied, good or bad.
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
from statistics import mean
from typing import Any

from benchmarks import measure
from benchmarks.dialogue_runs import FIND, FINDERS, READ, WRITERS, Made, trained
from benchmarks.lra import whole
from benchmarks.real import DATA, MINILM, folder
from benchmarks.steps import CUDA
from regard.core.errors import UserError, nearest
from regard.data.sources import Pair
from regard.runs.recipe import load_recipe
from regard.tasks.dialogue.prepare import read_test

EXAMPLES = 16
FIRST = 1  # seed, as recipes have it
BY_SEED = ("perplexity", "recall_1", "validation")
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


def all_trained(
    bots: Sequence[str], seeds: Sequence[int], data: Sequence[str], into: Path
) -> Iterator[tuple[tuple[str, int], Made]]:
    """As they come, for some take ten times as long as others. On a GPU all at once, on a CPU as many as there are cores."""
    cores, wanted = os.cpu_count() or 1, [(bot, seed) for seed in seeds for bot in bots]
    workers = len(wanted) if CUDA else min(len(wanted), cores)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(trained, *each, data, into, max(1, cores // workers)): each for each in wanted}
        for future in as_completed(running):
            bot, seed = running[future]
            print(f"{bot}, seed {seed}: {future.result().scores}, {future.result().seconds:.0f} s", flush=True)
            yield (bot, seed), future.result()


def recorded() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is known of each bot, and the examples."""
    path = measure.RESULTS / f"dialogue.{'cuda' if CUDA else 'cpu'}.json"
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {"bots": {}, "examples": []}
    return found["bots"], found["examples"]


def record(test: Sequence[Pair], bot: str, seed: int, made: Made) -> None:
    """One more bot, in the place of what was known of it; of other seeds than the first, scores beside it."""
    bots, examples = recorded()
    same = bots.get(bot, {}).get("settings") == made.settings
    seeds = _by_seed(bots[bot]) if same else {}
    seeds[str(seed)] = {name: {**made.scores, "validation": made.validation}[name] for name in BY_SEED}
    if fresh := seed == FIRST or not same:
        about = {"parameters": made.parameters, "training_seconds": made.seconds, "validation": made.validation}
        bots[bot] = {**made.scores, **about, "settings": made.settings}
    bots[bot]["seeds"] = dict(sorted(seeds.items()))
    bots = {each: bots[each] for each in BOTS if each in bots}
    if fresh:
        examples = _examples(test, bot, made, examples)
    floors = {each: {"floor": floor, "found": bots[each]["recall_1"]} for each, floor in FLOORS.items() if each in bots}
    perplexity: dict[str, Any] = {each: bots[each]["perplexity"] for each in WRITERS if each in bots}
    for hran, joined in RIVALS:
        if hran in bots and joined in bots and (means := _means(bots[hran], bots[joined])):
            perplexity |= {f"{hran}, on the average": means[0], f"{joined}, on the average": means[1]}
            perplexity[f"{hran}: not above {joined}"] = means[0] <= means[1]
    measure.write("dialogue", {"bots": bots, "recall_1": floors, "perplexity": perplexity, "examples": examples})


def _by_seed(bot: dict[str, Any]) -> dict[str, dict[str, float]]:
    return bot.get("seeds") or {str(FIRST): {name: bot[name] for name in BY_SEED}}


def _means(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float] | None:
    """Perplexities of two bots, over the seeds that both have; nothing of those that were trained otherwise."""
    ours, theirs = _by_seed(one), _by_seed(other)
    if not (both := ours.keys() & theirs.keys()) or not _alike(one, other):
        return None
    return mean(ours[seed]["perplexity"] for seed in both), mean(theirs[seed]["perplexity"] for seed in both)


def _examples(test: Sequence[Pair], bot: str, made: Made, examples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    said = {example["context"]: example["said"] for example in examples}
    # evenly from all of the test, so that nobody has chosen them
    rows = list(range(len(test) // (2 * EXAMPLES), len(test), len(test) // EXAMPLES))[:EXAMPLES]
    return [
        {"context": test[row].source, "true": test[row].target, "said": said.get(test[row].source, {}) | {bot: made.outputs[row]}}
        for row in rows
    ]


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
    names, named = {typed(bot): bot for bot in BOTS}, [name for name in arguments if not name.startswith("seeds=")]
    if strangers := [name for name in named if name not in names]:
        raise UserError(f"there is no bot {strangers[0]!r} here{nearest(strangers[0], names)}")
    seeds = [seed for text in arguments if text not in named for seed in whole(text.removeprefix("seeds="))] or [FIRST]
    bots, data = [names[name] for name in named] or list(BOTS), data_here()
    if any("MiniLM" in bot for bot in bots):
        folder(MINILM)
    test = read_test(load_recipe("chat-retrieval", [READ[0], FIND[0], *data]))
    with tempfile.TemporaryDirectory() as into:
        for (bot, seed), made in all_trained(bots, seeds, data, Path(into)):
            record(test, bot, seed, made)


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "dialogue" else ())
