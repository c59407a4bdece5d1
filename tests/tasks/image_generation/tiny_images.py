"""Tiny image models that are trained in a moment, and image files to try them on."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from tests.command import regard

TINY = ("model.image_size=8", "model.levels=8", "model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16")
TINY += ("data.train=builtin:shapes@count=60/train", "data.valid=builtin:shapes@count=10/valid")
TINY += ("data.test=builtin:shapes@count=10/test", "train.steps=4", "train.tokens_per_batch=512", "train.validate_every=4")
TINY += ("train.checkpoint_every=2", "train.warmup=1", "train.log_every=4")
KINDS = {
    "classes": (),
    "grey": ("model.pixels=grey", "model.classes=0"),
    "coupled": ("model.pixels=rgb", "model.output=logistic", "model.coupled=true", "model.mixtures=3"),
    "small": ("model.small=2", "model.pixels=rgb", "model.output=logistic", "model.classes=0", "model.mixtures=2"),
}
_kept = TemporaryDirectory(prefix="regard-images-")


@cache
def trained(kind: str) -> Path:
    """A run of four steps: to be read, not changed."""
    run = Path(_kept.name) / kind
    result = regard("train", "pixels", *TINY, *KINDS[kind], "--out", run, "--device", "cpu")
    assert result.code == 0, result.err
    return run


def write_image(path: Path, side: int = 8, seed: int = 0) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path
