"""InputPositions against the lecture's printed vectors and properties (T3, T10)."""

from math import pi

import pytest
import torch

from regard.core.errors import UserError
from regard.model.position.absolute import InputPositions, Pixels, Sinusoidal


def test_the_printed_vectors():
    assert [round(x, 3) for x in Sinusoidal(50)(torch.tensor([1]))[0, :4].tolist()] == [0.841, 0.540, 0.638, 0.770]
    assert [round(x, 3) for x in Sinusoidal(20)(torch.tensor([1]))[0, :4].tolist()] == [0.841, 0.540, 0.388, 0.922]


def test_the_formula_entry_by_entry():
    width = 7  # odd on purpose: the last pair has no cosine
    found = Sinusoidal(width)(torch.arange(30)).double()
    for position in (0, 1, 13, 29):
        for d in range(width):
            angle = position / 10000 ** (2 * (d // 2) / width)
            expected = torch.tensor(angle).sin() if d % 2 == 0 else torch.tensor(angle).cos()
            assert abs(found[position, d] - expected) < 1e-5


def test_a_shift_is_one_rotation_wherever_it_starts():
    encode, k = Sinusoidal(16), 5
    vectors = encode(torch.arange(40)).double()
    rotation = torch.zeros(16, 16, dtype=torch.double)
    for i in range(8):
        a = torch.tensor(k * 10000 ** (-2 * i / 16), dtype=torch.double)
        rotation[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.stack([a.cos(), a.sin(), -a.sin(), a.cos()]).reshape(2, 2)
    torch.testing.assert_close(vectors[:-k] @ rotation.T, vectors[k:], atol=1e-5, rtol=0)
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(16, dtype=torch.double))


def test_similarity_falls_with_distance_and_is_symmetric():
    vectors = Sinusoidal(128)(torch.arange(100)).double()
    similarity = vectors @ vectors.T
    torch.testing.assert_close(similarity, similarity.T)
    torch.testing.assert_close(similarity[50, 50:58], similarity[20, 20:28])
    assert (similarity[50, 50:56].diff() < 0).all()


def test_a_position_alone_is_the_position_in_a_row():
    for kind in ("sinusoidal", "learned"):
        positions = InputPositions(kind, 8, 32)
        whole = positions(torch.arange(10))
        assert torch.equal(positions(torch.tensor([7]))[0], whole[7])


def test_pixels_are_told_by_row_and_by_column():
    width, columns = 16, 5
    found = Pixels(width, columns)(torch.arange(1 + 3 * columns)).double()
    rates = [pi / 2 * (2 / (pi * columns)) ** (k / 4) for k in range(4)]  # from a quarter turn a pixel, down to a radian in five
    for row in range(3):
        for column in range(columns):
            angles = torch.tensor([[at * rate for rate in rates] for at in (row, column)], dtype=torch.double)
            expected = torch.stack([angles.sin(), angles.cos()], -1).flatten()
            torch.testing.assert_close(found[1 + row * columns + column], expected, atol=1e-5, rtol=0)
    assert len({tuple(vector) for vector in found.round(decimals=4).tolist()}) == 1 + 3 * columns  # the mark's is another
    packed = InputPositions("sinusoidal", width, 32, columns=columns)(torch.tensor([[0, 1, 7, 0, 1, 7]]))
    assert packed is not None
    assert torch.equal(packed[0, :3], packed[0, 3:])


def test_learned_positions_end_and_say_so():
    with pytest.raises(UserError, match="33 tokens does not fit the 32 learned positions"):
        InputPositions("learned", 8, 32).check(33)
