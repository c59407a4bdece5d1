"""The Perceiver and the model of questions on a GPU: numbers as on a CPU, in half precision too; the encoder is one graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.families import FAMILIES
from regard.families.base import Heads, Sizes

pytestmark = pytest.mark.gpu
SMALL = dict(width=32, latents=8, layers=1, blocks=2, readings=2, heads=2, bands=4)
SIZES = Sizes(vocabulary=40, heads=Heads(words=False, classes=5))
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "image": ("perceiver", SMALL | dict(image_size=16)),
    "both": ("perceiver", SMALL | dict(reads="both", image_size=16, input_width=32, maximum_length=20)),
    "vqa": ("vqa", dict(width=32, layers=1, heads=2, feedforward=48, image_size=16, patch=4, dropout=0.0)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("half", [False, True])
def test_logits_and_gradients_are_those_of_the_cpu(name: str, half: bool) -> None:
    family, settings = FAMILIES[CASES[name][0]], CASES[name][1]
    torch.manual_seed(0)
    config = family.config(**settings)
    model, inputs = family.build(config, SIZES, 0), family.example(config, SIZES, 3, 7)
    expected = model(*inputs)
    expected.square().sum().backward()
    gradients = {key: p.grad for key, p in model.named_parameters()}
    other = family.build(config, SIZES, 0).cuda()
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        found = other(*(x.cuda() for x in inputs)).float()
    found.square().sum().backward()
    torch.testing.assert_close(found.cpu(), expected, atol=0.05 if half else 1e-4, rtol=0.1 if half else 1e-3)
    if not half:
        for key, p in other.named_parameters():
            torch.testing.assert_close(p.grad.cpu(), gradients[key], atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("name", ["image", "both"])
def test_the_encoder_compiles_as_one_graph(name: str) -> None:
    family, settings = FAMILIES[CASES[name][0]], CASES[name][1]
    config = family.config(**settings)
    model: Any = family.build(config, SIZES, 0).cuda()
    inputs = [x.cuda() for x in family.example(config, SIZES, 3, 7)]
    expected = model(*inputs)
    model.encoder.compile(fullgraph=True)
    torch.testing.assert_close(model(*inputs), expected, atol=1e-4, rtol=1e-3)
