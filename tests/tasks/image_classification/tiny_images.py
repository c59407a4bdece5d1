"""A tiny run that tells drawn shapes apart, or tries to: what tests of image classification share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.command import regard, tiny

DATA = [f"data.{split}=builtin:shapes@count={count}/{split}" for split, count in (("train", 40), ("valid", 10), ("test", 20))]
SMALL = ["model.image_size=16", "train.examples_per_batch=8", "train.epochs=0", "train.steps=8", "train.warmup=2"]
SMALL += ["train.validate_every=4", "train.checkpoint_every=4", "train.schedule=constant", "train.precision=fp32"]
MODELS = {
    "convnet": ["convnet-shapes", "model.width=16", "model.stages=2"],
    "vit": ["vit", "model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16"],
}
EVERY = ["flip=true", "crop=2", "resized_crop=0.5", "randaugment=m9-n2-mstd0.5", "erasing=0.3", "mixup=0.8", "cutmix=1.0"]
AUGMENTED = [f"data.{key}" for key in EVERY] + ["data.repeats=2", "objective.smoothing=0.1"]


def train(folder: Path, model: str = "convnet", *settings: str) -> Path:
    result = regard("train", *MODELS[model], *SMALL, *DATA, *settings, "--out", folder, "--device", "cpu")
    assert result.code == 0, result.err
    return folder


@cache
def trained(model: str = "convnet") -> Path:
    """A run to be read, not changed."""
    return train(tiny().parent / f"images-{model}", model)
