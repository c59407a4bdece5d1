"""A tiny run that answers questions about images, and files with questions to read and to spoil."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from tests.command import regard, tiny

DATA = [f"data.{split}=builtin:scene-questions@count={n}/{split}" for split, n in (("train", 30), ("valid", 6), ("test", 6))]
TRAIN = ["train.steps=8", "train.warmup=2", "train.tokens_per_batch=200", "train.validate_every=4", "train.checkpoint_every=4"]
SMALL = ["model.width=16", "model.image_size=16", "model.patch=4", "model.heads=2", "model.feedforward=24", "model.layers=1"]
LATENT = ["model.width=16", "model.image_size=16", "model.latents=4", "model.heads=2", "model.layers=1", "model.input_width=16"]
RECIPES = {
    "cross": ["vqa-scenes", *SMALL, *TRAIN],
    "perceiver": ["vqa-scenes-perceiver", *LATENT, *TRAIN],
}
ROWS = [(f"{n % 3}.png", f"what colour is thing {n} ?", ("red", "blue")[n % 2]) for n in range(12)]


@cache
def trained(kind: str = "cross") -> Path:
    run = tiny().parent / f"visual-questions-{kind}"
    result = regard("train", *RECIPES[kind], *DATA, "--out", run)
    assert result.code == 0, result.err
    return run


def write_images(folder: Path, number: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(number):
        Image.fromarray(np.full((9, 12, 3), 60 * n, np.uint8)).save(folder / f"{n}.png")
