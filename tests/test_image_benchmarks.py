"""What the benches of images write: a line for each model or number of images, bars by the mean of the seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import cifar10, image_data_size, images_speed
from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.vit import ViTConfig


def seeds(*accuracies: float) -> dict[str, dict[str, float]]:
    return {str(n): {"accuracy": accuracy, "seconds": 100.0 + n, "steps": 5} for n, accuracy in enumerate(accuracies)}


def test_cifar10_tells_bars_and_what_a_teacher_adds() -> None:
    cells = {"vit": seeds(90.0, 92.0), "distilled": seeds(91.0), "alone": seeds(89.5)}
    first, _, _, last = cifar10.table(cells)["rows"]
    assert first[1:] == ["91.00 ±1.41 (90.00, 92.00)", "100, 101", "floor 90 met; goal 91.5 not met"]
    assert last == ["distilled less alone", "+1.50", "", "floor 1 met"]
    assert all(
        cell.recipe in ("vit-cifar10", "cct-cifar10", "convnet-cifar10", "deit-cifar10") for cell in cifar10.CELLS.values()
    )


def test_cifar10_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no train\.npz"):
        cifar10.main([f"data={tmp_path}"])
    with pytest.raises(UserError, match="there is no"):
        cifar10.main(["vitt"])


def test_data_sizes_are_lines_and_models_columns() -> None:
    runs = {"1000": {"vit": {"1": {"accuracy": 0.5}, "2": {"accuracy": 0.6}}}, "200": {"convnet": {"1": {"accuracy": 0.9}}}}
    assert image_data_size.table("x", runs)["rows"] == [["200", "", "90.0", "", ""], ["1,000", "55.0 (50.0, 60.0)", "", "", ""]]


def test_the_plain_model_of_the_race_is_of_the_same_size() -> None:
    config = ViTConfig(image_size=16, patch=4, width=24, heads=3, layers=2, feedforward=48)
    ours = build_model(config, 0, vocabulary=0, heads=Heads(words=False, classes=5))
    plain = images_speed.Plain(config, 5)
    assert sum(p.numel() for p in plain.parameters()) == sum(p.numel() for p in ours.parameters())
    image_BYXC = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8))
    assert plain(images_speed.pixels_of(config, image_BYXC)).shape == ours(image_BYXC).shape
