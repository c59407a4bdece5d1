"""Positions of a grid: the waves of the masked autoencoder's published formula, interpolation, and rotation in two dimensions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from regard.model.visibility import full
from regard.model.vision.positions import Grid, GridRotary, GridVectors, coordinates


def test_waves_are_those_of_the_masked_autoencoder() -> None:
    """transformers names the halves the other way round, and swaps them where it starts such a model."""
    build = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae").build_2d_sinusoidal_position_embedding
    expected = build(5, 5, 16, cls_token=True).roll(8, 1)
    found = GridVectors("sinusoidal", 16, Grid(5, 5), extra=1)(Grid(5, 5))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("grid", [Grid(3, 4), Grid(7, 5), Grid(2, 9)])
def test_a_table_of_another_size_is_interpolated_as_a_picture(grid: Grid, antialias: bool) -> None:
    table = torch.randn(2 + 16, 6, generator=torch.Generator().manual_seed(0))
    vectors = GridVectors("learned", 6, Grid(4, 4), extra=2, antialias=antialias)
    vectors.table_MD.data.copy_(table)
    picture = table[2:].reshape(4, 4, 6).permute(2, 0, 1)[None]
    expected = F.interpolate(picture, tuple(grid), mode="bicubic", align_corners=False, antialias=antialias)
    found = vectors(grid)
    torch.testing.assert_close(found[2:].reshape(*grid, 6), expected[0].permute(1, 2, 0))
    assert torch.equal(found[:2], table[:2])
    assert torch.equal(vectors(Grid(4, 4)), table)


def test_coordinates_span_what_they_spanned_in_training() -> None:
    trained, wide = Grid(4, 4), Grid(4, 8)
    assert coordinates(trained, trained, 1, torch.device("cpu")).tolist()[:6] == [[0, 0], [1, 1], [1, 2], [1, 3], [1, 4], [2, 1]]
    columns = coordinates(wide, trained, 0, torch.device("cpu"))[:8, 1]
    torch.testing.assert_close(columns.reshape(4, 2).mean(1), torch.arange(1.0, 5))  # two cells where one was


def test_a_score_depends_on_both_differences_alone() -> None:
    """The rotation by complex numbers: pairs (i, i + K / 2), the first half of them by the row."""
    width, base, g = 8, 50.0, torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 1, 20, width, generator=g, dtype=torch.float64) for _ in range(2))
    at = coordinates(Grid(4, 5), Grid(4, 5), 0, torch.device("cpu"))[None]
    view = full.over(20, 20, device=torch.device("cpu"))
    placement = GridRotary(width, base).over(replace(view, places=lambda: (at, at)))
    rate = torch.tensor([1.0, base ** (-0.5)])
    angle = torch.cat([at[0, :, :1] * rate, at[0, :, 1:] * rate], -1).double()
    turn = torch.polar(torch.ones_like(angle), angle)

    def turned(x: torch.Tensor) -> torch.Tensor:
        z = torch.complex(x[..., : width // 2], x[..., width // 2 :]) * turn
        return torch.cat([z.real, z.imag], -1)

    torch.testing.assert_close(placement.rotate(q), turned(q), atol=1e-6, rtol=0)
    same = q[:, :, :1].expand_as(q), k[:, :, :1].expand_as(k)
    scores = (placement.rotate(same[0]) @ placement.rotate(same[1]).mT).reshape(4, 5, 4, 5)
    torch.testing.assert_close(scores[0, 0, 2, 3], scores[1, 1, 3, 4], atol=1e-6, rtol=0)
    assert not torch.allclose(scores[0, 0, 2, 3], scores[0, 0, 3, 2])
