"""Roles of heads on images: lengths in pixels as a loop over pairs has them, directions that are planted, and random weights."""

from __future__ import annotations

import json
from math import hypot
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.lens.analyses.image_heads import MEASURES, image_heads, image_roles
from regard.lens.result import save
from regard.lens.subject import ImageTokens, Subject, TokenRow
from regard.model.probe import probe
from tests.lens.planted import Planted
from tests.lens.tiny_images import PATCH, model_of, subject, subject_of

ROWS, COLUMNS = 3, 4


@pytest.mark.parametrize("kind", ["class", "mean", "deit"])
def test_numbers_are_those_of_a_loop_over_pairs(kind: str) -> None:
    one = subject(kind)
    with torch.no_grad(), probe(one.model) as seen:
        one.forward(1)
    image, found = one.image, image_heads(one)
    assert image is not None
    assert len(found) == 6
    first, count = image.first, image.count
    for head in found:
        weights_TT = seen[head.attention].weights()[0, head.head].numpy().astype(np.float64)
        expected = dict.fromkeys(MEASURES, 0.0)
        for query in range(count):
            row_T = weights_TT[first + query]
            expected["class"] += row_T[:first].sum() / count
            expected["itself"] += row_T[first + query] / count
            for key in range(count):
                down, right = ((key // 4 - query // 4) * PATCH, (key % 4 - query % 4) * PATCH)
                share = row_T[first + key] / row_T[first:].sum() / count
                expected["distance"] += share * hypot(down, right)
                expected["right"] += share * right
                expected["down"] += share * down
        for measure in MEASURES:
            assert head.measured(measure) == pytest.approx(expected[measure], abs=1e-4), measure


def planted(**matrices: np.ndarray) -> Subject:
    """One head for each matrix, over a class token and patches of 8 pixels."""
    count = 1 + ROWS * COLUMNS
    names = {f"encoder.{n}.self": matrix for n, matrix in enumerate(matrices.values())}
    model = Planted(names, count, {"encoder": count})
    side = TokenRow(tuple(map(str, range(count))), tuple(range(count)), tuple(range(count)), (True,) + (False,) * (count - 1))
    image = ImageTokens(np.zeros((8 * ROWS, 8 * COLUMNS, 3), np.uint8), ROWS, COLUMNS, 1, (0,))
    return Subject(model, "planted", {"encoder": side}, model, torch.tensor([0]), None, str, None, image=image)


def looking(down: int, right: int) -> np.ndarray:
    """Each patch attends to the one so far away; at a border, to the last one in that direction."""
    matrix = np.eye(1 + ROWS * COLUMNS)
    for query in range(ROWS * COLUMNS):
        row, column = min(ROWS - 1, max(0, query // COLUMNS + down)), min(COLUMNS - 1, max(0, query % COLUMNS + right))
        matrix[1 + query] = 0
        matrix[1 + query, 1 + row * COLUMNS + column] = 1
    return matrix


def test_planted_roles_are_found() -> None:
    count = 1 + ROWS * COLUMNS
    even, on_class = np.full((count, count), 1 / count), np.eye(count)[np.zeros(count, int)]
    matrices = {
        "right": looking(0, 1), "left": looking(0, -1), "up": looking(-1, 0), "down": looking(1, 0), "itself": looking(0, 0),
        "class token": on_class, "wide": even,
    }  # fmt: skip
    found = image_roles(planted(**matrices))
    assert [found.role(n) for n in range(len(matrices))] == list(matrices)
    assert found.heads[0].right == pytest.approx(8 * (COLUMNS - 1) / COLUMNS)
    assert found.heads[2].down == pytest.approx(-8 * (ROWS - 1) / ROWS)
    assert found.heads[6].distance == pytest.approx(found.even)
    assert abs(found.heads[6].right) + abs(found.heads[6].down) < 1e-5
    again = image_roles(planted(**matrices), planted(**matrices))
    assert {again.role(n) for n in range(len(matrices))} == {"as random"}


def test_the_table_and_the_picture_have_random_weights_beside(tmp_path: Path) -> None:
    found = image_roles(subject("class"), subject_of(model_of("class", position="none"), subject("class").image.image_YXC))  # type: ignore[union-attr]
    lines = found.lines()
    assert "random weights" in lines[1]
    assert f"{PATCH} × {PATCH}" in lines[1]
    assert len(lines) == 4 + 6
    save(found, tmp_path / "a.png")
    wide, high = Image.open(tmp_path / "a.png").size
    assert min(wide, high) > 800
    data = json.loads(save_json(found, tmp_path))
    assert len(data["heads"]) == len(data["random"]) == 6
    assert data["heads"][0]["class"] == pytest.approx(found.heads[0].marks)


def save_json(found: object, folder: Path) -> str:
    save(found, folder / "a.json")  # type: ignore[arg-type]
    return (folder / "a.json").read_text()
