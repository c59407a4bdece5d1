"""The picture draws each map along the series, or beside its channels, and is a PNG that matplotlib can write."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from regard.lens.analyses.series_attention import series_attention
from regard.lens.analyses.weights import Choice
from regard.lens.plots.render import render_figure
from tests.lens.analyses.test_series_attention import CONFIGS
from tests.lens.test_series_subject import subject_of


@pytest.mark.parametrize("what", ["patches", "times"])
def test_maps_lie_below_the_times_that_they_are_of(what):
    found = series_attention(subject_of(CONFIGS[what]), Choice())
    figure = found.figure()
    meshes = [mesh for axes in figure.axes for mesh in axes.collections if isinstance(mesh, QuadMesh) and axes.get_ylabel()]
    assert len(meshes) == 2
    for mesh, weights_QK in zip(meshes, found.weights_NQK):
        np.testing.assert_allclose(mesh.get_array().reshape(weights_QK.shape), weights_QK)
        edges = mesh.get_coordinates()[0, :, 0]
        np.testing.assert_allclose(edges[:-1], found.key_spans[:, 0] - 12.5)  # 13 times are read, the last is 0
    assert render_figure(found.figure, "png").startswith(b"\x89PNG")


def test_channels_are_drawn_beside_their_rows():
    found = series_attention(subject_of(CONFIGS["channels"]), Choice())
    figure = found.figure()
    images = [image for axes in figure.axes for image in axes.images]
    assert len(images) == 2
    np.testing.assert_allclose(images[1].get_array(), found.weights_NQK[1])
    assert sum(len(axes.lines) for axes in figure.axes) >= 6
    assert render_figure(found.figure, "svg").count(b"<svg") == 1
