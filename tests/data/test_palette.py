"""Levels and palettes: nearest colours by brute force, and centres that are where k-means stops."""

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.data.palette import as_bytes, as_numbers, even_bytes, even_levels, learn_palette, nearest_colours


def drawn(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3), dtype=np.uint8)


def test_nearest_is_nearest():
    pixels, palette = drawn(200), as_numbers(drawn(9, 1))
    distances = ((as_numbers(pixels)[:, None] - palette[None]) ** 2).sum(-1)
    assert np.array_equal(nearest_colours(pixels, palette), distances.argmin(1))


@pytest.mark.parametrize("levels", [2, 16, 100, 256])
def test_even_levels_keep_order_and_come_back_within_half_a_step(levels):
    every = np.arange(256, dtype=np.uint8)
    found = even_levels(every, levels)
    assert found[0] == 0
    assert found[-1] == levels - 1
    assert (np.diff(found.astype(int)) >= 0).all()
    counts = np.bincount(found)
    assert counts.max() - counts.min() <= 1
    back = even_bytes(found, levels).astype(int)
    assert np.abs(back - every).max() <= 256 / levels
    assert back[0] == 0
    assert back[-1] == 255


def test_as_many_colours_as_there_are_are_these():
    colours = np.array([[0, 0, 0], [10, 200, 30], [255, 0, 0], [255, 255, 255]], np.uint8)
    palette = learn_palette(np.repeat(colours, [5, 1, 3, 9], 0), 4, seed=1)
    assert np.array_equal(as_bytes(palette), colours)  # from dark to bright


def test_every_centre_is_the_mean_of_its_pixels():
    rng = np.random.default_rng(3)
    pixels = np.concatenate([rng.normal(m, 6, (300, 3)).clip(0, 255) for m in (40, 120, 210)]).astype(np.uint8)
    palette = learn_palette(pixels, 3, seed=2)
    nearest = nearest_colours(pixels, palette)
    for n, centre in enumerate(palette):
        np.testing.assert_allclose(centre, as_numbers(pixels[nearest == n]).mean(0), atol=1e-6)
    np.testing.assert_allclose(as_bytes(palette), [[40] * 3, [120] * 3, [210] * 3], atol=4)
    assert np.array_equal(palette, learn_palette(pixels, 3, seed=2))


def test_more_colours_than_there_are_are_refused():
    with pytest.raises(UserError, match=r"model\.levels=5 colours are more than the 2 .* model\.levels=2"):
        learn_palette(np.array([[0, 0, 0], [9, 9, 9]], np.uint8), 5, seed=0)
