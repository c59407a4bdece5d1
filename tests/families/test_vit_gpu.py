"""Vision Transformers on a GPU: numbers as on a CPU, in half precision too, and a step of each that a CUDA graph can record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.families import FAMILIES
from regard.families.base import Heads, Sizes
from regard.objectives.masked_patches import MaskedPatchesConfig, MaskedPatchesLoss

pytestmark = pytest.mark.gpu
SMALL = dict(width=32, heads=2, feedforward=48, layers=2, image_size=16, patch=4)
SIZES = Sizes(vocabulary=0, heads=Heads(words=False, classes=5))
DECODER = dict(decoder_width=16, decoder_layers=1, decoder_heads=2, decoder_feedforward=24)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "class token": ("vit", SMALL),
    "sequence pooling, rotary": ("vit", SMALL | dict(pooling="sequence", position="rotary")),
    "convolutions": ("vit", SMALL | dict(tokens="convolutions", patch=16, pooling="mean", class_token=False)),
    "deit": ("deit", SMALL),
    "masked": ("vit_mae", SMALL | DECODER),
}


def built(name: str) -> tuple[Any, tuple[Any, ...]]:
    family, settings = FAMILIES[CASES[name][0]], CASES[name][1]
    config = family.config(**settings)
    torch.manual_seed(0)
    return family.build(config, SIZES, 0), family.example(config, SIZES, 3)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_those_of_the_cpu(name: str, half: bool) -> None:
    model, inputs = built(name)
    expected = model(*inputs)
    expected.square().sum().backward()
    other = built(name)[0].cuda()
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        found = other(*(x.cuda() for x in inputs)).float()
    found.square().sum().backward()
    torch.testing.assert_close(found.cpu(), expected, atol=0.05 if half else 1e-4, rtol=0.1 if half else 1e-3)
    if not half:
        for p, q in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(q.grad.cpu(), p.grad, atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("name", CASES)
def test_a_pass_can_be_recorded(name: str) -> None:
    """Forwards and backwards, masks of an autoencoder drawn inside: nothing waits for the host."""
    model, inputs = built(name)
    model, given = model.cuda().train(), [x.cuda() for x in inputs]
    loss = MaskedPatchesLoss(MaskedPatchesConfig())
    batch = SimpleNamespace(images=lambda: given[0])

    def step() -> torch.Tensor:
        total = loss(model, batch).total if name == "masked" else model(*given).square().sum()
        model.zero_grad(set_to_none=False)
        total.backward()
        return total

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    graph.replay()
    first = recorded.clone()
    graph.replay()
    assert first.isfinite()
    assert (recorded == first).item() == (name != "masked")  # other masks each time
    assert all(p.grad.abs().sum() > 0 for p in model.parameters())
