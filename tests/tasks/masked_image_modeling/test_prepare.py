"""Pre-training without labels by the commands of any task: stopped, continued, and the start of a classifier."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.command import refused, regard, tiny
from tests.tasks.image_classification.tiny_images import DATA

SMALL = ["model.image_size=16", "model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16"]
SMALL += ["model.decoder_width=8", "model.decoder_layers=1", "model.decoder_heads=2", "model.decoder_feedforward=8"]
STEPS = ["train.examples_per_batch=8", "train.epochs=0", "train.steps=4", "train.warmup=1", "train.validate_every=2"]
STEPS += ["train.checkpoint_every=2", "train.schedule=constant", "train.precision=fp32"]


def train(folder: Path, *settings: str, recipe: str = "mae-shapes", small: list[str] = SMALL) -> Path:
    result = regard("train", recipe, *small, *DATA, *STEPS, *settings, "--out", folder, "--device", "cpu")
    assert result.code == 0, result.err
    return folder


@cache
def trained() -> Path:
    """A run to be read, not changed."""
    return train(tiny().parent / "images-mae", "data.flip=true", "data.crop=1", "objective.normalised=true")


def weights(run: Path, step: int = 4) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:08d}" / "model.safetensors")


def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Masks, mirrors and moves are drawn by the number of the step."""
    settings = ("data.flip=true", "data.crop=1", "objective.normalised=true")
    train(tmp_path / "stopped", *settings, "train.steps=2")
    whole, other = weights(trained()), weights(train(tmp_path / "stopped", *settings))
    assert whole.keys() == other.keys()
    assert all(torch.equal(whole[name], other[name]) for name in whole)


def test_a_classifier_begins_with_the_encoder(tmp_path: Path) -> None:
    """Whose tensors have the same names; its own head is drawn, the decoder stays behind."""
    run = train(tmp_path / "vit", f"task.init_from={trained()}", "train.learning_rate=1e-20", recipe="vit", small=[])
    before, after = weights(trained()), weights(run)
    assert {name.partition(".")[0] for name in before.keys() - after.keys()} == {"decoder"}
    assert {name.partition(".")[0] for name in after.keys() - before.keys()} == {"classes"}
    assert all(torch.equal(before[name], after[name]) for name in before.keys() & after.keys())
    assert 'position = "sinusoidal"' in (run / "recipe.toml").read_text()


def test_frozen_and_pooled_otherwise(tmp_path: Path) -> None:
    settings = (f"task.init_from={trained()}", "task.freeze=true", "model.pooling=mean", "model.image_size=24")
    run = train(tmp_path / "vit", *settings, recipe="vit", small=[])
    before, after = weights(trained()), weights(run)
    assert all(torch.equal(before[name], after[name]) for name in before.keys() & after.keys())
    assert after["classes.project.weight"].abs().sum() > 0


def test_training_goes_on_from_a_trained_one(tmp_path: Path) -> None:
    run = train(tmp_path / "on", f"task.init_from={trained()}", "train.learning_rate=1e-20", small=[])
    before, after = weights(trained()), weights(run)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (("model.family=vit",), "masked_image_modeling"),
        (("objective.mask_rate=1",), "objective.mask_rate"),
        (("model.decoder_heads=3",), "does not divide"),
        (("model.patch=5",), "does not divide into patches"),
        (("data.train=",), "data.train is empty"),
        (("data.crop=-1",), "data.crop"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(settings: tuple[str, ...], told: str, tmp_path: Path) -> None:
    given = ("train", "mae-shapes", *SMALL, *DATA, *STEPS, *settings)
    refused(regard(*given, "--out", tmp_path / "run", "--device", "cpu"), told)
    assert not (tmp_path / "run").exists()
