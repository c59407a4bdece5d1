"""Settings that say `auto`: a run chooses them once, when it begins, and keeps its choice wherever it is continued."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from regard.runs.folder import Run, Say
from regard.runs.recipe import Recipe
from regard.training.compile import fastest_precision, multiplies_bf16
from regard.training.config import AUTO


def with_begun_settings(recipe: Recipe, folder: Path) -> Recipe:
    """Fill in `auto` with what the run in this folder has chosen, if it has begun: another choice would be another training."""
    if not (folder / "recipe.toml").is_file() or (run := Run(folder)).never_saved:
        return recipe
    before = run.recipe.train
    chosen = {key: getattr(before, key, AUTO) for key, value in vars(recipe.train).items() if value == AUTO}
    return _changed(recipe, **chosen)


def with_precision(recipe: Recipe, device: torch.device, say: Say) -> Recipe:
    """Choose the precision that is fastest on this device. One that was chosen before stays, with a warning if it is slow."""
    if recipe.train.precision == "bf16" and not multiplies_bf16(device):
        say(
            f"warning: train.precision=bf16 is emulated on this {device.type}, which has no instructions for it, and takes about "
            "twice as long as fp32; a new run with train.precision=auto takes the faster one."
        )
    return _changed(recipe, precision=fastest_precision(device)) if recipe.train.precision == AUTO else recipe


def with_metric(recipe: Recipe, metric: str) -> Recipe:
    """Choose the figure of validation by which a task is judged."""
    return _changed(recipe, best=metric) if recipe.train.best == AUTO else recipe


def _changed(recipe: Recipe, **chosen: str) -> Recipe:
    return replace(recipe, train=replace(recipe.train, **chosen)) if chosen else recipe
