"""iTransformer: variables are tokens, so their order changes nothing but the order of what is forecast."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.itransformer import ITransformerConfig

CONFIG = ITransformerConfig(lookback=12, horizon=5, width=16, heads=2, feedforward=16)
GENERATOR = torch.Generator().manual_seed(1)
PAST, KNOWN = torch.randn(2, 12, 4, generator=GENERATOR), torch.randn(2, 17, 2, generator=GENERATOR)


def build(covariates: int = 0) -> torch.nn.Module:
    heads = Heads(words=False, channels=4, covariates=covariates)
    return build_model(CONFIG, 5, vocabulary=0, heads=heads).eval()


def test_channels_are_a_set():
    model, order = build(), [2, 0, 3, 1]
    torch.testing.assert_close(model(PAST[..., order]), model(PAST)[..., order], atol=1e-5, rtol=1e-5)
    assert model(PAST[..., :3]).shape == (2, 5, 3)  # of any number


def test_every_channel_and_the_known_future_count():
    model, future = build(covariates=2), KNOWN.clone()
    future[:, -1] += 1
    assert not torch.allclose(model(PAST, KNOWN), model(PAST, future), atol=1e-6)
    other = PAST.clone()
    other[:, :, 3] = other[:, :, 3].flip(1)
    assert not torch.allclose(model(PAST, KNOWN)[..., 0], model(other, KNOWN)[..., 0], atol=1e-6)


def test_the_embedding_is_one_map_of_a_whole_window():
    model = build()
    x, _ = model.normalise(PAST)
    expected = torch.einsum("blc,dl->bcd", x, model.embed.weight) + model.embed.bias
    torch.testing.assert_close(model.embed(x.transpose(1, 2)), expected, atol=1e-5, rtol=1e-5)
    moved, scaled = model(PAST + 7), model(3 * PAST)
    torch.testing.assert_close(moved, model(PAST) + 7, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(scaled, 3 * model(PAST), atol=1e-3, rtol=1e-3)


def test_positions_are_refused():
    with pytest.raises(UserError, match="channels have none"):
        ITransformerConfig(position="learned")


def test_what_is_constant_in_a_series_is_embedded():
    heads = Heads(words=False, channels=4, statics=3)
    model = build_model(CONFIG, 5, vocabulary=0, heads=heads).eval()
    town, village = torch.eye(3)[[0, 0]], torch.eye(3)[[1, 0]]
    one, other = model(PAST, None, town), model(PAST, None, village)
    assert not torch.allclose(one[0], other[0], atol=1e-6)
    torch.testing.assert_close(one[1], other[1])
    plain = build_model(CONFIG, 5, vocabulary=0, heads=Heads(words=False, channels=4)).eval()
    weights = {name: weight for name, weight in model.state_dict().items() if name != "embed_static.weight"}
    plain.load_state_dict(weights)
    torch.testing.assert_close(model(PAST, None, torch.zeros(2, 3)), plain(PAST))
