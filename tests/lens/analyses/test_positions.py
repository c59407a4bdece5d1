"""A shift of sinusoids is a rotation, which a linear map finds; of a table drawn at random it finds nothing."""

import math

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.lens.analyses.positions import analysed, positions_of
from regard.lens.result import html
from regard.model.embedding import InputPositions
from tests.lens.some_subjects import answers


def random_table(places=200, width=16):
    positions = InputPositions("learned", width, places)
    torch.nn.init.normal_(positions.scheme.table.weight, generator=torch.Generator().manual_seed(0))
    return positions


@pytest.mark.parametrize("width", [16, 64, 96])
def test_sinusoids_turn(width):
    """By a linear map exactly, and alike by distance alone: the cosine is the mean of cos(k / 10000^(2i/d))."""
    result = analysed(InputPositions("sinusoidal", width, 0), "demo")
    assert max(result.linear_map.values()) < 1e-6
    assert result.one_vector[8] > 0.5
    for k in (0, 1, 5, 100):
        expected = np.mean([math.cos(k / 10000 ** (2 * i / width)) for i in range(width // 2)])
        assert result.cosine[k] == pytest.approx(expected, abs=1e-4)
    assert max(result.spread) < 1e-4


def test_pixels_are_alike_down_a_column():
    result = analysed(InputPositions("sinusoidal", 32, 0, columns=16), "demo")
    assert result.lines()[0] == "demo: row-and-column positions, 512 of width 32"
    assert result.cosine[16] > result.cosine[8]  # the pixel below is nearer than the one in the middle of the row
    assert result.spread[16] < 1e-4


def test_the_map_is_the_rotation_of_the_paper():
    """What is fitted predicts far positions; so does the matrix of angles written down."""
    width, k = 8, 3
    positions = InputPositions("sinusoidal", width, 0)
    table = positions(torch.arange(50)).double()
    turn = torch.zeros(width, width, dtype=torch.float64)
    for i in range(0, width, 2):
        angle = k / 10000 ** (i / width)
        turn[i, i] = turn[i + 1, i + 1] = math.cos(angle)
        turn[i + 1, i], turn[i, i + 1] = math.sin(angle), -math.sin(angle)
    torch.testing.assert_close(table[:-k] @ turn, table[k:], atol=1e-5, rtol=0)


def test_a_random_table_has_no_turn_and_no_distance():
    result = analysed(random_table(), "random")
    assert min(result.linear_map.values()) > 0.8
    assert np.abs(result.cosine[1:100]).max() < 0.3
    assert result.directions > 12
    assert result.kind == "learned"
    assert result.positions == 200


def test_of_a_model():
    result = positions_of(answers("writer").model, "run")
    assert result.kind == "learned"
    assert result.positions == 16
    assert positions_of(answers("translator").model, "run").kind == "sinusoidal"
    assert "cosine" in " ".join(result.lines())
    assert result.as_dict()["linear_map"].keys() == result.linear_map.keys()
    assert "run" in html(result)


@pytest.mark.parametrize("position", ["relative", "rotary", "alibi"])
def test_positions_inside_attention_are_no_vectors(position):
    from regard.families.gpt import GPT, GPTConfig

    model = GPT(GPTConfig(width=8, heads=2, layers=1, feedforward=8, position=position), 10)
    with pytest.raises(UserError, match=rf"model\.position={position} acts inside attention.*--show bias"):
        positions_of(model, "run")


def test_no_positions_are_refused():
    from regard.families.gpt import GPT, GPTConfig

    model = GPT(GPTConfig(width=8, heads=2, layers=1, feedforward=8, position="none"), 10)
    with pytest.raises(UserError, match=r"model\.position=none"):
        positions_of(model, "run")
