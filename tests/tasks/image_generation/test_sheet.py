"""A sheet shows every image enlarged by a whole number, in its place."""

from io import BytesIO

import numpy as np
from PIL import Image

from regard.tasks.image_generation.sheet import GAP, MARGIN, Row, half_drawn, in_rows, png_of, sheet


def image(side: int, seed: int, colours: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, colours), dtype=np.uint8)


def test_pixels_are_squares_in_rows_and_columns():
    images = [image(6, n) for n in range(5)]
    picture = np.asarray(Image.open(BytesIO(sheet(in_rows(images)))))
    side = 72
    for n, shown in enumerate(images):
        y, x = MARGIN + n // 3 * (side + GAP), MARGIN + n % 3 * (side + GAP)
        part = picture[y : y + side, x : x + side]
        assert np.array_equal(part, shown.repeat(12, 0).repeat(12, 1))


def test_large_images_are_not_cut_and_small_ones_stand_in_the_middle():
    large, small = image(100, 0), image(4, 1, colours=1)
    picture = np.asarray(Image.open(BytesIO(sheet([Row("a name", [large, small])], ["large", "small"]))))
    grown = np.broadcast_to(small, (4, 4, 3)).repeat(25, 0).repeat(25, 1)
    top = next(y for y in range(picture.shape[0]) if any(np.array_equal(picture[y, x : x + 100], large[0]) for x in range(80)))
    left = next(x for x in range(80) if np.array_equal(picture[top, x : x + 100], large[0]))
    assert np.array_equal(picture[top : top + 100, left : left + 100], large)
    beside = left + 100 + GAP
    assert np.array_equal(picture[top : top + 100, beside : beside + 100], grown)


def test_what_is_not_drawn_yet_is_chequered():
    shown = half_drawn(image(4, 2), 6)
    assert np.array_equal(shown.reshape(16, 3)[:6], image(4, 2).reshape(16, 3)[:6])
    assert set(np.unique(shown.reshape(16, 3)[6:])) == {225, 245}


def test_a_png_is_the_image():
    for colours in (1, 3):
        given = image(5, 3, colours)
        back = np.asarray(Image.open(BytesIO(png_of(given))))
        assert np.array_equal(back, given[..., 0] if colours == 1 else given)
