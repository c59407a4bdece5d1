"""Cells of an image against torch's own convolutions; each looks from its own middle; positions say row and column."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.model.embedding import Sinusoidal
from regard.model.init import initialise
from regard.model.vision import Convolutions, GridPositions, ImageSettings, Patches, as_numbers, stage_channels


def image(batch: int, rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, rows, columns, 3), dtype=torch.uint8, generator=g)


@settings(max_examples=15)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9))
def test_patches_are_a_convolution_that_never_overlaps(size: int, rows: int, columns: int, width: int) -> None:
    patches, pixels = Patches(size, width), image(2, rows * size, columns * size)
    kernel = patches.project.weight.unflatten(1, (size, size, 3)).permute(0, 3, 1, 2)
    x_BCYX = as_numbers(pixels, torch.float32).permute(0, 3, 1, 2)
    expected = F.conv2d(x_BCYX, kernel, patches.project.bias, stride=size).flatten(2).mT
    torch.testing.assert_close(patches(pixels), expected, atol=1e-5, rtol=1e-5)


def test_bytes_become_numbers_around_zero() -> None:
    assert as_numbers(torch.tensor([0, 255], dtype=torch.uint8), torch.float32).tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_stage_halves_and_a_cell_sees_around_its_own_middle(size: int) -> None:
    """Random weights, and no norm, which all pixels have a say in: where a cell's gradient is not zero is what it sees."""
    cells = Convolutions(size, 16).double()
    cells.norms = torch.nn.ModuleList(torch.nn.Identity() for _ in cells.norms)
    cells.norms[0].weight = torch.zeros(1, dtype=torch.double)
    x = torch.rand(1, 8 * size, 8 * size, 3, dtype=torch.double, requires_grad=True)
    found = cells(x).unflatten(1, (8, 8))
    assert found.shape == (1, 8, 8, 16)
    found[0, 3, 4].sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().sum(-1) > 0
    for dimension, cell in ((1, 3), (0, 4)):
        places = seen.any(dimension).nonzero().flatten()
        first, last = int(places[0]), int(places[-1])
        assert (first + last) / 2 == (cell + 0.5) * size - 0.5


def test_convolutions_are_torchs() -> None:
    cells, pixels = Convolutions(4, 24), image(2, 16, 16)
    initialise(cells, 3)
    assert stage_channels(4, 24) == [16, 24]
    x = pixels.permute(0, 3, 1, 2) / 127.5 - 1
    for stage, channels in zip(cells.stages, (16, 24)):
        x = F.relu(F.group_norm(F.conv2d(x, stage.weight, stride=2, padding=1), 8, torch.ones(channels), torch.zeros(channels)))
    torch.testing.assert_close(cells(pixels), x.flatten(2).mT, atol=1e-5, rtol=1e-5)


def test_sinusoidal_positions_say_the_row_and_the_column() -> None:
    found = GridPositions("sinusoidal", 5, 12)(torch.zeros(1, 25, 12))[0].unflatten(0, (5, 5))
    waves = Sinusoidal(6)(torch.arange(5))
    torch.testing.assert_close(found[..., :6], waves[:, None].expand(5, 5, 6))
    torch.testing.assert_close(found[..., 6:], waves[None].expand(5, 5, 6))


def test_learned_positions_are_one_a_cell_and_none_are_none() -> None:
    learned, cells = GridPositions("learned", 3, 8), torch.randn(2, 9, 8)
    assert learned.table is not None
    torch.testing.assert_close(learned(cells), cells + learned.table.weight)
    assert GridPositions("none", 3, 8)(cells) is cells


@pytest.mark.parametrize(("mean", "deviation"), [((0.5,), (0.5,)), ((0.4, 0.5, 0.6), (0.2, 0.3, 0.4)), ((0.1, 0.2, 0.3), (0.5,))])
def test_colours_are_centred_and_divided(mean: tuple[float, ...], deviation: tuple[float, ...]) -> None:
    chosen, pixels = ImageSettings(pixel_mean=mean, pixel_deviation=deviation), image(2, 4, 6)
    expected = (pixels.double() / 255 - torch.tensor(mean)) / torch.tensor(deviation)
    torch.testing.assert_close(chosen.as_numbers(pixels, torch.float64), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (dict(pixel_mean=(0.5, 0.5)), "model.pixel_mean has 2 numbers"),
        (dict(pixel_mean=(float("nan"),)), "not finite"),
        (dict(pixel_deviation=(0.0,)), "model.pixel_deviation=0.0 must be above 0"),
        (dict(colours=1, pixel_deviation=(0.5, 0.5, 0.5)), "each of 1 colours"),
    ],
)
def test_numbers_that_do_not_fit_the_colours_are_refused(given: dict, told: str) -> None:
    with pytest.raises(UserError, match=told):
        ImageSettings(**given).check_image()
