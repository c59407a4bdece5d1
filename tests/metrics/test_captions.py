"""Captions scored: BLEU with several references by hand, right captions by the scene, peaks by where things were put."""

from __future__ import annotations

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.data.builtin.scenes import Box, Group, Scene
from regard.metrics.bleu import NONE, Looks, caption_scores, looks_at, middles_on

SCENE = Scene(
    0,
    0,
    (Group(2, "red", "circle"), Group(1, "blue", "square")),
    "above",
    ((Box(0.0, 0.0, 0.25, 0.25), Box(0.5, 0.0, 0.75, 0.25)), (Box(0.25, 0.5, 0.5, 0.75),)),
)
RIGHT = "two red circles above a blue square"


def test_bleu_takes_the_best_of_several_references() -> None:
    outputs, references = ["a b c d e", "x y z w"], [["a b c d f", "q b c d e"], ["x y z w"]]
    # n-grams of order 1 to 4: all of the first are in one or the other reference, but "a b c d e" as a whole in neither
    scores = caption_scores(outputs, references, [])
    matched, total = np.array([9, 7, 5, 3]), np.array([9, 7, 5, 3])
    assert scores.bleu == pytest.approx(100 * np.exp(np.log(matched / total).mean()))
    alone = caption_scores(outputs, [["a b c d f"], ["x y z w"]], [])
    matched = np.array([8, 6, 4, 2])
    assert alone.bleu == pytest.approx(100 * np.exp(np.log(matched / total).mean()))
    assert (scores.right, scores.on_object, scores.images) == (None, None, 2)
    assert "right" not in scores.as_dict()
    with pytest.raises(UserError, match="1 captions came with references for 2"):
        caption_scores(["a"], references, [])


def test_case_and_the_shorter_reference_count_as_they_should() -> None:
    assert caption_scores(["A Dog Runs Fast"], [["a dog runs fast", "b"]], []).bleu == pytest.approx(100)
    short = caption_scores(["a b c d"], [["a b c d e f g h"]], [])
    assert short.bleu == pytest.approx(100 * np.exp(1 - 8 / 4))


def test_right_and_wrong() -> None:
    outputs = [RIGHT, "a blue square below two red circles", "a blue square above two red circles", "a red circle"]
    scores = caption_scores(outputs, [SCENE.captions] * 4, [SCENE] * 4)
    assert scores.right == 50
    assert any("50.00  % of 4 captions" in line for line in scores.lines())


def lit(*cells: tuple[int, int]) -> np.ndarray:
    """A map for each word, with its peak there."""
    maps = np.full((len(cells), 4, 4), 0.01)
    for word, (row, column) in enumerate(cells):
        maps[word, row, column] = 1
    return maps


def test_a_peak_must_lie_on_what_the_word_names() -> None:
    nowhere = (3, 3)
    maps = lit(nowhere, (0, 2), nowhere, nowhere, nowhere, (2, 1), (0, 0))
    # Of "red circles", the colour is looked up at the second one and the shape at nothing; of "blue square", the shape at a
    # circle.
    assert looks_at(SCENE, RIGHT, maps) == Looks(4, 2, pytest.approx(2 * 2 / 16 + 2 * 1 / 16))
    assert looks_at(SCENE, "a green circle", lit((0, 0), (0, 0), (0, 0))) == Looks(2, 0, 0)
    assert looks_at(SCENE, "red", lit((0, 0))) == NONE
    assert (Looks(1, 1, 0.5) + Looks(2, 0, 0.5)) == (3, 1, 1.0)


def test_middles() -> None:
    assert middles_on([Box(0.0, 0.0, 0.3, 0.3)], 4, 4).sum() == 1
    assert middles_on([Box(0.0, 0.0, 0.4, 0.3)], 4, 4).sum() == 2  # the second cell's middle is at 0.375
    assert middles_on([Box(0.13, 0.13, 0.37, 0.37)], 4, 4).sum() == 0
    assert not middles_on([], 4, 4).any()
