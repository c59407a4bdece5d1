"""Arrays that a Perceiver reads: Fourier features against their formula in double precision, and what is refused."""

from __future__ import annotations

from itertools import product
from math import cos, pi, sin

import pytest
import torch

from regard.core.errors import UserError
from regard.model.perceiver.inputs import ImageArray, PairedArray, SeriesArray, TextArray, fourier_channels, fourier_features
from regard.model.vision import ImageSettings

CPU, FLOAT = torch.device("cpu"), torch.float32


@pytest.mark.parametrize(("sizes", "bands", "resolution"), [((5,), 3, 5), ((3, 4), 2, 8), ((2, 3, 2), 2, 6), ((1, 4), 4, 32)])
def test_features_are_positions_then_sines_then_cosines_axis_by_axis(sizes, bands: int, resolution: int) -> None:
    frequencies = [1 + n * (resolution / 2 - 1) / (bands - 1) for n in range(bands)]
    places = [[-1 + 2 * n / (size - 1) if size > 1 else -1.0 for n in range(size)] for size in sizes]
    expected = [
        [*at, *(sin(pi * f * x) for x in at for f in frequencies), *(cos(pi * f * x) for x in at for f in frequencies)]
        for at in product(*places)
    ]
    found = fourier_features(sizes, bands, resolution, CPU)
    assert found.shape[1] == fourier_channels(len(sizes), bands)
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("positions", "stem"), [("fourier", False), ("learned", False), ("fourier", True), ("learned", True)])
def test_every_pixel_or_cell_is_a_vector_as_wide_as_stated(positions, stem: bool) -> None:
    settings = ImageSettings(image_size=8, colours=3)
    array = ImageArray(settings, positions, bands=3, width=10, stem=stem)
    image = torch.randint(256, (2, 8, 8, 3), dtype=torch.uint8)
    assert array(image, FLOAT).shape == (2, 4 if stem else 64, array.channels)
    if positions == "fourier" and not stem:  # which takes images of other sizes too, with the values themselves in front
        assert array(image[:, :5, :6], FLOAT).shape == (2, 30, 3 + 14)
        torch.testing.assert_close(array(image, FLOAT)[..., :3], image.flatten(1, 2) / 127.5 - 1)
    if positions == "learned":  # which are interpolated for images of other sizes
        wide = torch.cat([image, image], 2)
        assert array(wide, FLOAT).shape == (2, 8 if stem else 128, array.channels)


def test_grey_images_have_one_value_a_pixel() -> None:
    array = ImageArray(ImageSettings(image_size=4, colours=1), "fourier", bands=2, width=0, stem=False)
    assert array.channels == 1 + 2 + 8
    assert array(torch.zeros(1, 4, 4, 1, dtype=torch.uint8), FLOAT).shape == (1, 16, 11)


@pytest.mark.parametrize("positions", ["fourier", "learned"])
def test_texts_and_series_have_the_same_positions_whatever_their_length(positions) -> None:
    text = TextArray(20, positions, bands=4, width=6, maximum_length=9, dropout=0.0)
    series = SeriesArray(2, positions, bands=4, width=6, maximum_length=9)
    ids, numbers = torch.randint(20, (3, 9)), torch.randn(3, 9, 2)
    for array, given in ((lambda x: text(x), ids), (lambda x: series(x, FLOAT), numbers)):
        whole = array(given)
        assert whole.shape[:2] == (3, 9)
        torch.testing.assert_close(array(given[:, :4]), whole[:, :4])
        with pytest.raises(UserError, match=r"longer than model\.maximum_length=9|does not fit the 9 learned"):
            array(torch.cat([given, given], 1))
    assert text(ids).shape[2] == text.channels
    assert series(numbers, FLOAT).shape[2] == series.channels


def test_an_image_and_a_text_are_one_array_with_a_mark_for_each() -> None:
    image = ImageArray(ImageSettings(image_size=4), "fourier", bands=2, width=6, stem=False)
    text = TextArray(20, "fourier", bands=4, width=6, maximum_length=9, dropout=0.0)
    array, ids, pixels = (
        PairedArray(image, text, 6),
        torch.randint(20, (3, 5)),
        torch.randint(256, (2, 4, 4, 3), dtype=torch.uint8),
    )
    owner = torch.tensor([1, 0, 1])
    found = array(ids, pixels, owner, FLOAT)
    assert found.shape == (3, 16 + 5, 6)
    torch.testing.assert_close(array(ids, pixels[owner], None, FLOAT), found)
    with torch.no_grad():
        array.kinds.weight[1] += 1
    moved = array(ids, pixels, owner, FLOAT) - found
    torch.testing.assert_close(moved, torch.cat([torch.zeros(3, 16, 6), torch.ones(3, 5, 6)], 1))
