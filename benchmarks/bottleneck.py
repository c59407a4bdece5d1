"""The bottleneck: BLEU against the length of what is translated, through one vector and with three scores, beside a Transformer.

    python -m benchmarks.bottleneck                       on a CPU: one to four built-in sentences at a time
    REGARD_DATA=FOLDER python -m benchmarks.bottleneck    on a GPU: Multi30k, English to German, all trained side by side

Bahdanau et al. 2015, figure 2: what must pass through one vector is lost as sentences grow, and what is looked back at is not.
All have the same pairs, vocabulary, batches, steps and search; settings were chosen by validation alone. The picture is
docs/images/bottleneck.png, or bottleneck-multi30k.png.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.bottleneck_runs import RECIPES, Made, joined, settings_of, trained
from benchmarks.lines import IMAGES, draw
from benchmarks.measure import write
from benchmarks.real import DATA, folder
from regard.data.sources import Pair
from regard.data.sources.parallel import read_pairs
from regard.metrics.bleu import corpus_scores

CUDA = torch.cuda.is_available()
PICTURE = IMAGES / f"bottleneck{'-multi30k' if CUDA else ''}.png"
MOST, TRAIN, TEST = 4, 8000, 400  # built-in sentences in a text, and texts
GROUPS = 5  # of lengths, each with as many test sentences as the others


def data_here(into: Path) -> tuple[list[str], list[Pair], str]:
    """Settings that name the data, the test pairs, and what they are in words."""
    if CUDA:
        names = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
        files = {
            split: tuple(str(folder(DATA, "multi30k", f"{name}.{language}.gz")) for language in ("en", "de"))
            for split, name in names.items()
        }
        told = "Multi30k, English to German, 29,000 pairs; tested on flickr 2016"
        return [f"data.{split}={','.join(pair)}" for split, pair in files.items()], read_pairs(files["test"], None, None), told
    for split, limit in (("train", TRAIN), ("valid", TEST // 4), ("test", TEST)):
        lines = [f"{pair.source}\t{pair.target}\n" for pair in joined(split, MOST, limit)]
        (into / f"{split}.tsv").write_text("".join(lines), "utf-8")
    told = f"{TRAIN:,} built-in texts, English to French, each of one to {MOST} sentences"
    return [f"data.{s}={into / f'{s}.tsv'}" for s in ("train", "valid", "test")], joined("test", MOST, TEST), told


def all_trained(data: Sequence[str], into: Path) -> dict[str, Made]:
    """On a GPU all at once, on a CPU as many as there are cores."""
    cores = os.cpu_count() or 1
    workers = len(RECIPES) if CUDA else min(len(RECIPES), cores)
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawned) as pool:
        threads = max(1, cores // workers)
        running = {name: pool.submit(trained, name, data, CUDA, into, threads) for name in RECIPES}
        return {name: future.result() for name, future in running.items()}


def grouped(test: Sequence[Pair]) -> list[np.ndarray]:
    """Rows of the test set by the words of their source, in groups of about as many; rows of one length are never parted."""
    words = np.array([len(pair.source.split()) for pair in test])
    edges = np.unique(np.quantile(words, np.linspace(0, 1, GROUPS + 1)[1:-1], method="nearest"))
    group = np.searchsorted(edges, words)
    return [np.flatnonzero(group == n) for n in np.unique(group)]


def scored(test: Sequence[Pair], made: Mapping[str, Made]) -> list[dict[str, Any]]:
    """For each group of lengths, everybody's BLEU, blind to case."""
    found = []
    for rows in grouped(test):
        words = [len(test[row].source.split()) for row in rows]
        references = [test[row].target for row in rows]
        bleu = {name: corpus_scores([one.outputs[row] for row in rows], references).bleu_lowercase for name, one in made.items()}
        found.append({"words": [min(words), max(words)], "mean": float(np.mean(words)), "sentences": len(rows), "bleu": bleu})
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        data, test, told = data_here(Path(name))
        made = all_trained(data, Path(name))
    groups, references = scored(test, made), [pair.target for pair in test]
    models = {
        name: {
            "bleu_lowercase": corpus_scores(one.outputs, references).bleu_lowercase,
            "validation_nll": one.validation,
            "parameters": one.parameters,
            "training_seconds": one.seconds,
            "recipe": settings_of(name, CUDA)[0],
            "settings": settings_of(name, CUDA)[1],
        }
        for name, one in made.items()
    }
    means = [group["mean"] for group in groups]
    draw(
        {name: (means, [group["bleu"][name] for group in groups]) for name in made}, told, "words of the source", "BLEU", PICTURE
    )
    path = write("bottleneck", {"data": told, "models": models, "groups": groups})
    for group in groups:
        scores = "  ".join(f"{name} {value:5.1f}" for name, value in group["bleu"].items())
        print(f"{group['words'][0]:>3} to {group['words'][1]:>3} words  {scores}")
    print(f"written to {path.name}, drawn: {PICTURE.name}")


if __name__ == "__main__":
    main()
