"""Pixels on a GPU: captured searches draw what a CPU draws, blocks compute what masks do, steps of training are captured."""

import pytest
import torch

from regard.decode.algorithm import sessions_on
from regard.decode.config import GREEDY
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.families.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.model.vision.colour_state import ColourByColour
from tests.command import regard
from tests.tasks.image_generation.tiny_images import KINDS, TINY

pytestmark = pytest.mark.gpu
SMALL = dict(width=32, heads=2, layers=2, feedforward=64, dropout=0.0, image_size=8, levels=16)
KINDS_OF_OUTPUT = [dict(pixels="grey"), dict(pixels="grey", output="logistic"), dict(output="logistic", coupled=True)]


def drawn(model: ImageTransformer) -> list[list[int]]:
    device = next(model.parameters()).device
    start = model.order.ids(torch.zeros(3, 0, dtype=torch.long)).to(device)
    encoded = model.start(start[:, :0], torch.zeros(3, dtype=torch.long, device=device))
    coupled = model.order.coupled
    request = SearchRequest(
        encoded=ColourByColour(encoded) if coupled else encoded,
        sos=start[:, 0],
        eos=-1,
        limits=[64 * (3 if coupled else 1)] * 3,
        method=GREEDY,
        sessions=None if coupled else sessions_on(device),
    )
    return [found[0].ids for found in search(request)]


@pytest.mark.parametrize("parts", KINDS_OF_OUTPUT)
def test_a_gpu_draws_what_a_cpu_draws(parts):
    model = ImageTransformer(ImageTransformerConfig(**(SMALL | parts)), 3).eval()
    expected = drawn(model)
    assert drawn(model.cuda()) == expected


@torch.no_grad()
@pytest.mark.parametrize("visibility", ["image-local-1d(256, 256)", "image-local-2d(96, 8, 24, 8, 24)"])
def test_blocks_of_cifar_are_what_masks_are(visibility):
    choices = dict(image_size=32, levels=256, visibility=visibility, heads=2, width=64)
    model = ImageTransformer(ImageTransformerConfig(**(SMALL | choices)), 3).eval()
    ids = model.order.ids(torch.randint(256, (1, 3072)))[:, :-1]
    expected = model(ids)
    torch.testing.assert_close(model.cuda()(ids.cuda()).cpu(), expected, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", ["classes", "coupled"])
def test_training_steps_are_captured(kind, tmp_path):
    more = ("train.precision=bf16", "train.steps=8", "train.checkpoint_every=8")
    result = regard("train", "pixels", *TINY, *KINDS[kind], *more, "--out", tmp_path / "run", "--device", "cuda")
    assert result.code == 0, result.err
    assert "cannot be captured" not in result.err
