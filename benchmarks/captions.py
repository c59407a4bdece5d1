"""Captions: drawn scenes, how many are exactly right and where words look, over three seeds; BLEU-4 on a sample of Flickr8k.

    REGARD_DATA=FOLDER regard bench captions [scenes flickr8k] [seeds=1,2,3]

Scenes need no data. Of photographs, REGARD_DATA has flickr8k/captions_1000.jsonl.gz and flickr8k/images_96px_1000.tar.gz; the
split is Flickr8k's own, and the checkpoint is the one whose validation loss is the lowest. Test data are scored once.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from benchmarks.lra import typed, whole
from benchmarks.measure import Table, write
from benchmarks.real import DATA, folder
from regard.commands.train import train_run
from regard.runs.folder import choose_device
from regard.runs.recipe import load_recipe

RECIPES = {"cnn and lstm": "caption-scenes", "cnn and transformer": "caption-scenes-transformer"}
FIGURES = {"right": "right, %", "on_object": "peak on its object, %", "by_chance": "by chance, %", "bleu": "BLEU-4"}
BARS = {"right": 95.0, "on_object": 90.0}
PHOTOS = ["text.lowercase=true", "text.minimum_count=3", "text.size=3000", "model.image_size=96", "model.patch=8"]
PHOTOS += ["model.dropout=0.3", "train.epochs=20", "train.warmup=0.05", "train.learning_rate=1e-3", "train.validate_every=0"]
PHOTOS += ["train.patience=4"]


def main() -> None:
    named, chosen, settings = typed(sys.argv[1:], ("scenes", "flickr8k"), {"seeds": "1,2,3"})
    seeds = whole(chosen["seeds"])
    tables = []
    if not named or "scenes" in named:
        tables.append(scenes(seeds, settings))
    if not named or "flickr8k" in named:
        tables.append(photos(seeds, settings))
    setting = f"Seeds {chosen['seeds']}; test data scored once, by the checkpoint with the lowest validation loss."
    write("captions", title="Captions", setting=setting, rows=[], versions={}, tables=tables)


def scenes(seeds: tuple[int, ...], settings: list[str]) -> Table:
    rows = []
    for title, recipe in RECIPES.items():
        found = [trained(recipe, [f"train.seed={seed}", *settings]) for seed in seeds]
        rows.append([title, *(_each([one[figure] for one in found]) for figure in FIGURES)])
        print(" | ".join(rows[-1]), flush=True)
    told = ", ".join(f"{FIGURES[figure]} at least {bar:g}" for figure, bar in BARS.items())
    return Table(title=f"Drawn scenes, 500 of test (bars: {told})", columns=["model", *FIGURES.values()], rows=rows)


def photos(seeds: tuple[int, ...], settings: list[str]) -> Table:
    captions, images = (folder(DATA, "flickr8k", name) for name in ("captions_1000.jsonl.gz", "images_96px_1000.tar.gz"))
    splits = {"train": "train", "valid": "dev", "test": "test"}
    given = [f"data.{split}={captions}@official_split={name}" for split, name in splits.items()] + [f"data.images={images}"]
    rows = []
    for title, recipe in RECIPES.items():
        found = [trained(recipe, [*given, *PHOTOS, f"train.seed={seed}", *settings]) for seed in seeds]
        rows.append([title, _each([one["bleu"] for one in found])])
        print(" | ".join(rows[-1]), flush=True)
    title = "Flickr8k, a sample: 753 images to train on, 125 of test with five captions each"
    return Table(title=title, columns=["model", "BLEU-4"], rows=rows)


def trained(recipe: str, settings: list[str]) -> dict[str, Any]:
    """Scores on the test set."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        outcome = train_run(load_recipe(recipe, settings), Path(place) / "run", choose_device(None), lambda line: None)
        assert outcome.result is not None
        return outcome.result.as_dict()


def _each(values: list[float]) -> str:
    return f"{mean(values):.1f} ({', '.join(f'{value:.1f}' for value in values)})" if len(values) > 1 else f"{values[0]:.1f}"


if __name__ == "__main__":
    main()
