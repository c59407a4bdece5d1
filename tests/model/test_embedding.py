"""The embedding: scale, positions added or concatenated, segments, norm, a narrower table, whole words dropped."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.model.embedding import Embed

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
