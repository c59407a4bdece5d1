"""Latents and output queries: against the formula with torch's own attention, shared weights, padding, and what is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import UserError
from regard.model.perceiver.latents import CrossLayer, LatentEncoder, LatentSettings, OutputQueries
from regard.model.probe import attentions, probe
from regard.model.visibility import full


def settings(**keys) -> LatentSettings:
    return LatentSettings(**(dict(width=12, latents=5, layers=2, heads=3) | keys))


@pytest.mark.parametrize("residual", [True, False])
def test_a_cross_layer_is_attention_with_widths_of_its_own(residual: bool) -> None:
    layer = CrossLayer(settings(), "x", width=12, channels=7, heads=2, qk_width=8, value_width=6, widening=2, residual=residual)
    q, array = torch.randn(3, 5, 12), torch.randn(3, 9, 7)
    a, normed, given = layer.attention, layer.norm(q), layer.array_norm(array)
    key, value = F.linear(given, a.project.weight, a.project.bias).split([8, 6], -1)
    split = lambda x: x.unflatten(-1, (2, -1)).transpose(1, 2)  # noqa: E731
    weights = (split(a.query(normed)) @ split(key).mT / 4**0.5).softmax(-1)
    x = a.out((weights @ split(value)).transpose(1, 2).flatten(2)) + (q if residual else 0)
    expected = x + layer.ffn.contract(F.gelu(layer.ffn.expand(layer.ffn_norm(x))))
    torch.testing.assert_close(layer(q, array, full.over(5, 9, device=q.device)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("shared", "own_layers", "own_reads"), [("all", 2, 2), ("after_first", 4, 2), ("none", 8, 3)])
def test_blocks_share_weights_as_asked(shared, own_layers: int, own_reads: int) -> None:
    encoder = LatentEncoder(settings(blocks=4, readings=3, shared=shared), 7)
    assert len({id(layer.attention.project.weight) for layer in encoder.layers}) == own_layers
    assert len({id(layer.ffn.expand.bias) for layer in encoder.reads}) == own_reads
    with probe(encoder) as seen:
        encoder(torch.randn(2, 9, 7))
    assert list(seen) == list(encoder.settings.encoder_attentions)
    assert set(attentions(encoder)) == set(seen)
    assert seen["encoder.2.cross"].weights().shape == (2, 1, 5, 9)


def test_shared_blocks_are_one_block_run_again() -> None:
    torch.manual_seed(2)
    once, twice = LatentEncoder(settings(), 7), LatentEncoder(settings(blocks=2), 7)
    names = {name for name, _ in twice.named_parameters()}
    twice.load_state_dict(once.state_dict(), strict=False)
    assert names == {name for name, _ in once.named_parameters()}
    array = torch.randn(2, 9, 7)
    x, view = once(array), full.over(5, 5, device=array.device)
    for layer in once.layers:
        x = layer(x, view)
    torch.testing.assert_close(twice(array), x)


def test_what_lies_behind_a_rows_length_changes_nothing() -> None:
    encoder, array, lengths = LatentEncoder(settings(), 7).eval(), torch.randn(2, 9, 7), torch.tensor([9, 4])
    found, other = encoder(array, lengths), array.clone()
    other[1, 4:] = 100.0
    torch.testing.assert_close(encoder(other, lengths), found)
    torch.testing.assert_close(encoder(array[1:, :4])[0], found[1], atol=1e-5, rtol=1e-5)


def test_any_queries_may_be_asked() -> None:
    queries, latents = OutputQueries(settings(), "decoder.0.cross", 6, 8, residual=False, heads=2, qk=4), torch.randn(3, 5, 12)
    assert queries(latents).shape == (3, 6, 8)
    torch.testing.assert_close(queries(latents, 2), queries(latents)[:, :2])
    given = queries.queries.weight[None].expand(3, -1, -1)
    torch.testing.assert_close(queries.ask(latents, given.flip(1)), queries(latents).flip(1))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"heads": 5}, "model.heads=5 does not divide a width of 12"),
        ({"cross_heads": 2}, "model.cross_heads=2 does not divide a width of 7"),
        ({"qk_width": 8, "heads": 2, "cross_heads": 3}, "model.cross_heads=3 does not divide a width of 8"),
        ({"value_width": 8}, "model.heads=3 does not divide a width of 8"),
        ({"qk_width": -1}, "model.qk_width=-1"),
        ({"readings": 2}, "model.readings=2 is more than model.blocks=1"),
        ({"shared": "none"}, "model.shared=none is for several blocks"),
        ({"dropout": 1.5}, "model.dropout=1.5"),
        ({"latents": 0}, "model.latents=0"),
    ],
)
def test_settings_that_cannot_be_are_refused(keys, said: str) -> None:
    with pytest.raises(UserError, match=said):
        settings(**keys).check_latents(7)
