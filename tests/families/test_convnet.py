"""The convolutional network: its published shape, its norms, and what its settings refuse."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.core.errors import UserError
from regard.families import build_model, count_model
from regard.families.base import Heads
from regard.families.convnet import ChannelNorm, ConvNet, ConvNetConfig

TEN = Heads(words=False, classes=10)


def test_at_width_512_it_is_of_the_size_of_resnet_9() -> None:
    """ResNet-9 has 6.57 million parameters: 64, 128 (with a block), 256, 512 (with a block) channels; ours have a block each."""
    tree = count_model(ConvNetConfig(width=512), 1, vocabulary=0, heads=TEN)
    by_hand = 3 * 64 * 9 + sum(i * o * 9 + 2 * o * o * 9 for i, o in ((64, 128), (128, 256), (256, 512))) + 512 * 10 + 10
    by_hand += 2 * (64 + 3 * 128 + 3 * 256 + 3 * 512)
    assert tree.parameters == by_hand
    products = 3 * 64 * 9 * 32**2 + 512 * 10
    products += sum(
        i * o * 9 * side**2 + 2 * o * o * 9 * (side // 2) ** 2 for i, o, side in ((64, 128, 32), (128, 256, 16), (256, 512, 8))
    )
    assert tree.flops == 2 * products


def test_a_norm_is_torchs_batch_norm() -> None:
    ours, theirs = ChannelNorm(6), nn.BatchNorm2d(6)
    for n in range(4):
        x = torch.randn(3, 6, 5, 5, generator=torch.Generator().manual_seed(n)) * 2 + 1
        torch.testing.assert_close(ours.train()(x), theirs.train()(x))
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    assert set(ours.state_dict()) == {"weight", "bias", "mean_C", "variance_C"}


def test_a_stage_halves_the_image_and_a_pixel_far_away_is_seen_by_the_last() -> None:
    model = build_model(ConvNetConfig(width=32, stages=3, image_size=16), 0, vocabulary=0, heads=TEN).eval()
    x_BCYX = torch.rand(1, 3, 16, 16)
    sides = []
    x_BCYX = model.stem(x_BCYX)
    for stage in model.stages:
        x_BCYX = stage(x_BCYX)
        sides.append(x_BCYX.shape[-1])
    assert sides == [8, 4, 2]


def test_without_classes_it_gives_vectors() -> None:
    model = ConvNet(ConvNetConfig(width=16, stages=2, image_size=8)).eval()
    found = model.outputs(torch.zeros(2, 8, 8, 3, dtype=torch.uint8))
    assert {name: tuple(x.shape) for name, x in found.items()} == {"pooled": (2, 16)}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"width": 20, "stages": 3}, "cannot be halved 2 times"),
        ({"width": 16, "stages": 3}, "cannot be halved 2 times"),
        ({"image_size": 4, "stages": 3}, "image_size=4 cannot be halved 3 times"),
        ({"stages": 0}, "stages=0 must be"),
        ({"layers": 65}, "layers=65 must be"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"pixel_mean": (0.1, 0.2)}, "pixel_mean has 2 numbers"),
        ({"pixel_deviation": (0.0,)}, "must be above 0"),
    ],
)
def test_settings_that_make_no_network(settings: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told):
        ConvNetConfig(**settings)  # type: ignore[arg-type]
