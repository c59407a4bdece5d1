"""A tiny run that forecasts drawn series: what tests of forecasting share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.command import regard, tiny

SMALL = ["model.lookback=24", "model.horizon=6", "train.examples_per_batch=8", "train.epochs=0", "train.steps=6"]
SMALL += ["train.warmup=2", "train.validate_every=3", "train.checkpoint_every=3", "train.schedule=constant", "data.limit=400"]
SMALL += ["train.precision=fp32"]
NARROW = ["model.width=8", "model.heads=2", "model.layers=1", "model.feedforward=8"]
MODELS = {
    "forecaster": ["forecast", *NARROW],
    "patchtst": ["forecast-patchtst", *NARROW, "model.patch=8", "model.stride=4"],
}


def train(folder: Path, model: str = "patchtst", *settings: str) -> Path:
    recipe = [str(dlinear(folder.parent))] if model == "dlinear" else MODELS[model]
    result = regard("train", *recipe, *SMALL, *settings, "--out", folder, "--device", "cpu")
    assert result.code == 0, result.err
    return folder


def dlinear(folder: Path) -> Path:
    """A recipe of the smallest model."""
    path = folder / "dlinear.toml"
    path.write_text('[task]\nname = "forecasting"\n[data]\ntrain = ["builtin:series/regimes"]\n[model]\nfamily = "dlinear"\n')
    return path


@cache
def trained(model: str = "patchtst") -> Path:
    """A run to be read, not changed."""
    return train(tiny().parent / f"series-{model}", model)
