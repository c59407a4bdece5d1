"""Attention over a window: the weights are those of the probe, joined as they are said to be."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.families.forecaster import ForecasterConfig
from regard.families.itransformer import ITransformerConfig
from regard.families.patchtst import PatchTSTConfig
from regard.lens.analyses.series_attention import series_attention
from regard.lens.analyses.weights import Choice
from tests.lens.test_series_subject import SMALL, subject_of

CONFIGS = {
    "patches": PatchTSTConfig(**{**SMALL, "layers": 2}, patch=4, stride=3),
    "times": ForecasterConfig(**{**SMALL, "layers": 2}),
    "channels": ITransformerConfig(**{**SMALL, "layers": 2}),
}


@pytest.mark.parametrize("what", CONFIGS)
def test_maps_are_means_over_heads(what):
    subject = subject_of(CONFIGS[what])
    found = series_attention(subject, Choice())
    part = "decoder.{}.cross" if what == "times" else "encoder.{}.self"
    seen = subject.record()
    for layer in range(2):
        expected = seen[part.format(layer)].weights()[0].mean(0)
        np.testing.assert_allclose(found.weights_NQK[layer], expected, atol=1e-6)
    assert f"What {what} attend to" in found.caption
    assert (found.key_spans is None) == (what == "channels")
    assert len(found.lines()) > 4
    assert json.loads(json.dumps(found.as_dict()))["keys"] == [*found.keys]


def test_heads_of_a_layer_and_parts_are_chosen():
    subject = subject_of(CONFIGS["times"])
    found = series_attention(subject, Choice(layer=1))
    expected = subject.record()["decoder.1.cross"].weights()[0]
    np.testing.assert_allclose(found.weights_NQK, expected, atol=1e-6)
    assert found.names == ("head 0", "head 1")
    for part, size in (("encoder", (13, 13)), ("decoder", (4, 4)), ("cross", (4, 13))):
        found = series_attention(subject, Choice(part=part))
        assert found.weights_NQK.shape[1:] == size
        assert (len(found.query_spans), len(found.key_spans)) == size
    with pytest.raises(UserError, match="--part cross"):
        series_attention(subject_of(CONFIGS["channels"]), Choice(part="cross"))
