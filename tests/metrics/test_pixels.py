"""What others need for the same images: histograms counted by hand, and the size of PNG files on a disk."""

import numpy as np
import pytest
from PIL import Image

from regard.metrics.pixels import PixelScores, place_bits, png_bits


def test_a_histogram_of_each_place():
    train = np.array([[0, 1], [0, 2], [1, 2]])
    test = np.array([[0, 2], [2, 0]])
    shares = [(2 + 1) / 6, (2 + 1) / 6, 1 / 6, 1 / 6]  # of 3 levels, each counted once more
    assert place_bits(train, test, 3) == pytest.approx(-np.log2(shares).mean())


def test_png_files(tmp_path):
    rng = np.random.default_rng(0)
    for channels, shape in ((1, (8, 8)), (3, (8, 8, 3))):
        level = rng.integers(0, 4, (3, 64 * channels), dtype=np.uint8)
        sizes = []
        for n, row in enumerate(level):
            Image.fromarray(row.reshape(shape)).save(tmp_path / f"{n}.png", optimize=True)
            sizes.append((tmp_path / f"{n}.png").stat().st_size)
        assert png_bits(level, 8) == pytest.approx(8 * sum(sizes) / level.size)


def test_scores_are_told_beside_those_of_others():
    scores = PixelScores(2.5, 10, 100, {"PNG files": 4.0})
    assert scores.lines()[0] == "bits/dim        2.5000  of 10 images with 100 levels each"
    assert "4.0000  PNG files" in scores.lines()[1]
    assert scores.as_dict()["others_bits_per_dim"] == {"PNG files": 4.0}
