"""The embedding: scale, positions added or concatenated, segments, norm, a narrower table, whole words dropped.

InputPositions against the lecture's printed vectors and properties (T3, T10).
"""

from __future__ import annotations

from math import pi

import pytest
import torch

from regard.core.errors import UserError
from regard.model.embedding import Embed, InputPositions, Pixels, Sinusoidal

IDS = torch.tensor([[3, 1, 4], [1, 5, 9]])


def embed(**settings: object) -> Embed:
    torch.manual_seed(0)
    return Embed(11, 8, **{"position": "none", "maximum_length": 6, "dropout": 0.0, **settings}).eval()


def test_words_are_scaled_by_the_root_of_the_width_or_not() -> None:
    assert torch.equal(embed()(IDS), embed().tokens(IDS) * 8**0.5)
    assert torch.equal(embed(scaled=False)(IDS), embed().tokens(IDS))


@pytest.mark.parametrize("kind", ["none", "rotary", "relative", "alibi", "transformer-xl"])
def test_schemes_inside_attention_add_nothing_here(kind: str) -> None:
    found = embed(position=kind)
    assert torch.equal(found(IDS), embed()(IDS))
    assert set(found.state_dict()) == {"tokens.weight"}


def test_positions_are_added_or_concatenated() -> None:
    added, joined = embed(position="learned"), embed(position="learned", join="concat", position_width=3)
    at = torch.tensor([5, 0, 2])
    torch.testing.assert_close(added(IDS, at), added.tokens(IDS) * 8**0.5 + added.positions.scheme.table(at))
    assert joined.tokens.weight.shape == (11, 5)
    torch.testing.assert_close(joined(IDS, at)[..., 5:], joined.positions.scheme.table(at).expand(2, -1, -1))
    with pytest.raises(UserError, match="7 tokens does not fit the 6 learned positions"):
        added(torch.zeros(1, 7, dtype=torch.long))


def test_segments_norm_and_a_wider_body() -> None:
    found = embed(segments=2, norm_epsilon=1e-12, body_width=16)
    segments = torch.tensor([[0, 1, 1], [0, 0, 0]])
    out = found(IDS, segments_BL=segments)
    assert out.shape == (2, 3, 16)
    torch.testing.assert_close(found(IDS)[1], out[1])
    assert not torch.allclose(found(IDS)[0, 1], out[0, 1])


def test_a_dropped_word_is_dropped_wherever_it_stands() -> None:
    found = embed(word_dropout=0.5).train()
    x = found(torch.arange(11).repeat(3, 1))
    assert torch.equal(x[0], x[1])
    dropped = (x[0] == 0).all(-1)
    assert 0 < dropped.sum() < 11


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
