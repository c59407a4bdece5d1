"""Positions of an image compared: cosines as numpy has them, waves that rows and columns explain, and what has no vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.errors import UserError
from regard.lens.analyses.grid_positions import compared, grid_positions
from regard.lens.analyses.positions import positions_of
from regard.lens.result import save
from regard.model.vision.positions import GridVectors
from tests.lens.tiny_images import model_of


def vectors_of(**more: object) -> GridVectors:
    found = grid_positions(model_of("class", **more))
    assert found is not None
    return found


def test_cosines_are_those_of_the_table_without_learned_tokens() -> None:
    vectors = vectors_of()
    found = compared(vectors, "run")
    table = vectors.table_MD.detach().numpy()[1:].astype(np.float64)
    for a, b in ((0, 5), (3, 3), (15, 1)):
        assert found.cosine_PP[a, b] == pytest.approx(table[a] @ table[b] / np.linalg.norm(table[a]) / np.linalg.norm(table[b]))
    pairs = [found.cosine_PP[4 * y + x, 4 * y + x + 2] for y in range(4) for x in range(2)]
    assert found.mean(0, 2) == pytest.approx(np.mean(pairs))
    assert found.mean(4, 0) is None
    assert found.by_row_and_column < 0.7  # a random table has no rows


def test_waves_are_rows_and_columns_through_and_through() -> None:
    found = compared(vectors_of(position="sinusoidal"), "run")
    assert found.by_row_and_column == pytest.approx(1)
    assert found.mean(0, 1) == pytest.approx(found.mean(1, 0))
    assert found.mean(0, 1) > found.mean(0, 3)  # type: ignore[operator]


def test_a_table_that_was_planted_is_explained_as_much_as_it_should_be() -> None:
    vectors = GridVectors("learned", 8, vectors_of().grid, 1)
    draw = torch.Generator().manual_seed(1)
    rows, columns = torch.randn(4, 1, 8, generator=draw), torch.randn(1, 4, 8, generator=draw)
    with torch.no_grad():
        vectors.table_MD[1:] = (rows + columns).flatten(0, 1)
    assert compared(vectors, "run").by_row_and_column == pytest.approx(1)


@pytest.mark.parametrize("position", ["rotary", "none"])
def test_without_vectors_there_is_nothing_to_compare(position: str) -> None:
    with pytest.raises(UserError, match=f"model.position={position} adds no vectors"):
        positions_of(model_of("class", position=position), "run")


def test_a_picture_for_each_place(tmp_path: Path) -> None:
    found = positions_of(model_of("class"), "runs/vit")
    assert "4 × 4 patches" in found.lines()[1]
    save(found, tmp_path / "a.png")
    pixels = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    dark = (pixels == (18, 56, 92)).all(-1)  # full shade: each place is like itself, so each picture has such a cell
    assert dark.sum() > 16 * 100
