"""Windows as subjects: what tokens are called, which times they are, and that the pass is the model's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.dlinear import DLinearConfig
from regard.families.forecaster import ForecasterConfig
from regard.families.itransformer import ITransformerConfig
from regard.families.patchtst import PatchTSTConfig
from regard.lens.series_subject import series_subject, time_names
from regard.lens.subject import SeriesTokens, Subject

SMALL = {"lookback": 13, "horizon": 4, "width": 8, "heads": 2, "layers": 1, "feedforward": 8}
PAST = torch.randn(1, 13, 3, generator=torch.Generator().manual_seed(0))


def subject_of(config: object, channel: int = 1) -> Subject:
    heads = Heads(words=False, channels=3)
    model = build_model(config, 5, vocabulary=0, heads=heads).eval()
    series = SeriesTokens(("a", "b", "c"), channel, PAST[0].numpy(), np.zeros((4, 3)))
    return series_subject(model, (PAST,), series, (), "title")


def test_times_are_named_by_dates_or_by_steps():
    assert time_names(None, 3, 2) == ["-2", "-1", "0", "+1", "+2"]
    days = np.array(["2024-01-01", "2024-01-02"], "datetime64[s]")
    assert time_names(days, 1, 1) == ["2024-01-01", "2024-01-02"]
    assert time_names(days + np.timedelta64(3600, "s"), 1, 1) == ["01 Jan 01:00", "02 Jan 01:00"]


@pytest.mark.parametrize(
    ("padded", "spans"), [(True, [[0, 4], [3, 7], [6, 10], [9, 13], [12, 13]]), (False, [[0, 4], [3, 7], [6, 10], [9, 13]])]
)
def test_patches_are_times_of_one_channel(padded, spans):
    found = subject_of(PatchTSTConfig(**SMALL, patch=4, stride=3, padded=padded))
    assert found.series.spans["encoder"].tolist() == spans
    assert found.sides["encoder"].tokens[0] == "-12 … -9"
    seen = found.record()["encoder.0.self"].weights()
    assert seen.shape[:1] == (1,)
    every = subject_of(PatchTSTConfig(**SMALL, patch=4, stride=3, padded=padded), channel=2)
    assert not torch.allclose(seen, every.record()["encoder.0.self"].weights())


def test_weights_of_a_channel_are_those_of_the_whole_pass():
    from regard.model.probe import probe

    found = subject_of(PatchTSTConfig(**SMALL, patch=4, stride=3))
    with torch.no_grad(), probe(found.model) as seen:
        found.model(PAST)
        whole = seen["encoder.0.self"].weights()[1]
    torch.testing.assert_close(found.record()["encoder.0.self"].weights()[0], whole)


def test_times_and_channels_are_tokens():
    found = subject_of(ForecasterConfig(**SMALL))
    assert {name: len(row) for name, row in found.sides.items()} == {"encoder": 13, "decoder": 4}
    assert found.sides["decoder"].tokens == ("+1", "+2", "+3", "+4")
    assert found.series.spans["decoder"].tolist() == [[13, 14], [14, 15], [15, 16], [16, 17]]
    found = subject_of(ITransformerConfig(**SMALL))
    assert found.sides["encoder"].tokens == ("a", "b", "c")
    assert "encoder" not in found.series.spans


def test_a_model_without_tokens_is_refused():
    with pytest.raises(UserError, match="has no attention over times"):
        subject_of(DLinearConfig(lookback=13, horizon=4))
    with pytest.raises(UserError, match="scored on"):
        subject_of(ForecasterConfig(**SMALL)).nll()
