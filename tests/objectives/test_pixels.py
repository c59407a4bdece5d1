"""The likelihood of images against PyTorch's cross-entropy of what the model says of every token."""

import math

import pytest
import torch
import torch.nn.functional as F

from regard.data.batching.pixels import PixelBatch
from regard.families.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.model.vision.logistic import next_colour
from regard.objectives.pixels import PixelsConfig, PixelsLoss, bits

SMALL = dict(width=16, heads=2, layers=1, feedforward=16, dropout=0.0, image_size=4, levels=8)


def batch(config: ImageTransformerConfig) -> PixelBatch:
    level = torch.randint(config.levels, (3, 16 * config.channels), dtype=torch.uint8)
    small = torch.randint(config.levels, (3, config.small**2 * config.channels)) if config.small else None
    class_ = torch.randint(config.classes, (3,)) if config.classes else None
    return PixelBatch(level, class_, small, level.numel())


@pytest.mark.parametrize(
    "parts",
    [
        dict(pixels="grey"),
        dict(pixels="rgb", classes=3, small=2),
        dict(pixels="palette", grid=False, position="learned"),
        dict(pixels="grey", output="logistic", small=2),
        dict(pixels="rgb", output="logistic", mixtures=4),
    ],
)
def test_it_is_the_cross_entropy_of_the_image_alone(parts):
    config = ImageTransformerConfig(**(SMALL | parts))
    model, given = ImageTransformer(config, 1), batch(config)
    loss = PixelsLoss(PixelsConfig())(model, given)
    ids = model.order.ids(given.level_BL, given.class_B, given.small_BM)
    logits = model(ids[:, :-1])[:, model.order.prefix :]
    expected = F.cross_entropy(logits.flatten(0, 1), given.level_BL.long().flatten(), reduction="sum")
    torch.testing.assert_close(loss.total, expected, atol=1e-3, rtol=1e-5)
    assert loss.count == given.level_BL.numel()


def test_coupled_colours_are_scored_one_after_the_other():
    config = ImageTransformerConfig(**(SMALL | dict(pixels="rgb", output="logistic", coupled=True, mixtures=3)))
    model, given = ImageTransformer(config, 1), batch(config)
    level = given.level_BL.long().unflatten(1, (-1, 3))
    numbers = model(model.order.ids(given.level_BL)[:, :-1])
    assert numbers.shape == (3, 16, 30)
    chain = [next_colour(numbers, level, c, 8).gather(-1, level[..., c, None]) for c in range(3)]
    loss = PixelsLoss(PixelsConfig())(model, given)
    torch.testing.assert_close(loss.total, -torch.stack(chain).sum(), atol=1e-3, rtol=1e-5)
    assert loss.count == 3 * 48


@pytest.mark.parametrize("parts", [dict(), dict(output="logistic"), dict(output="logistic", coupled=True)])
def test_its_gradient_reaches_every_parameter(parts):
    config = ImageTransformerConfig(**(SMALL | parts))
    model = ImageTransformer(config, 1)
    PixelsLoss(PixelsConfig())(model, batch(config)).total.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_a_nat_in_bits():
    assert bits(math.log(256)) == pytest.approx(8)
