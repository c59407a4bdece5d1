"""The 2017 Transformer for numbers: it reads every time of the window, and what is known of each time of the horizon."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.forecaster import ForecasterConfig
from regard.model.probe import probe

CONFIG = ForecasterConfig(lookback=12, horizon=5, width=16, heads=2, feedforward=16, layers=1, dropout=0.0)
GENERATOR = torch.Generator().manual_seed(1)
PAST, KNOWN = torch.randn(2, 12, 3, generator=GENERATOR), torch.randn(2, 17, 2, generator=GENERATOR)


def build() -> torch.nn.Module:
    return build_model(CONFIG, 5, vocabulary=0, heads=Heads(words=False, channels=3, covariates=2)).eval()


def test_every_time_that_is_read_counts():
    model, before = build(), None
    before = model(PAST, KNOWN)
    for time in range(12):
        other = PAST.clone()
        other[:, time] += torch.tensor([1.0, -2.0, 3.0])
        assert not torch.allclose(model(other, KNOWN), before, atol=1e-5)
    for time in range(17):
        known = KNOWN.clone()
        known[:, time] += 1
        assert not torch.allclose(model(PAST, known), before, atol=1e-6)


def test_the_decoder_reads_the_encoder_by_cross_attention():
    model = build()
    with probe(model) as seen:
        model(PAST, KNOWN)
        found = {*seen.seen} if hasattr(seen, "seen") else {*seen}
    assert found == {*CONFIG.attentions} == {"encoder.0.self", "decoder.0.self", "decoder.0.cross"}


def test_a_window_longer_than_learned_positions_is_refused():
    with pytest.raises(UserError, match="more times than"):
        ForecasterConfig(position="learned", maximum_length=100, lookback=96, horizon=24)


def test_what_is_constant_in_a_series_is_embedded():
    heads = Heads(words=False, channels=3, statics=3)
    model = build_model(CONFIG, 5, vocabulary=0, heads=heads).eval()
    town, village = torch.eye(3)[[0, 0]], torch.eye(3)[[1, 0]]
    one, other = model(PAST, None, town), model(PAST, None, village)
    assert not torch.allclose(one[0], other[0], atol=1e-6)
    torch.testing.assert_close(one[1], other[1])
    plain = build_model(CONFIG, 5, vocabulary=0, heads=Heads(words=False, channels=3)).eval()
    weights = {name: weight for name, weight in model.state_dict().items() if name != "embed_static.weight"}
    plain.load_state_dict(weights)
    torch.testing.assert_close(model(PAST, None, torch.zeros(2, 3)), plain(PAST))
