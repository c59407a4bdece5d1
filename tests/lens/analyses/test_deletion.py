"""An order that knows what matters loses the model sooner than one that does not; what is taken is what was said to be."""

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.lens.analyses.deletion import ALONE, EXPLANATIONS, RANDOM, deletion
from regard.lens.analyses.gradients import input_side, word_shares
from regard.lens.result import html
from tests.lens.some_subjects import SOME, subject

FEW = {name: EXPLANATIONS[name] for name in ("attention", "gradient × input")}


def without(found, places):
    stack, side = input_side(found)
    share = torch.ones(1, len(side))
    share[0, places] = 0
    with torch.no_grad(), word_shares(found, {stack: share}):
        return float(found.nll())


@pytest.mark.parametrize("name", ["translator", "writer", "labeller", "filler"])
def test_curves_are_what_the_model_says_without_those_words(name):
    """From nothing taken to all taken, and between in the order that was given."""
    found = subject(name)
    _, side = input_side(found)
    words = [n for n, special in enumerate(side.special) if not special]
    base = without(found, [])
    last_first = {"from the end": lambda subject, stack: np.arange(len(side), dtype=float)}
    result = deletion([found], last_first, draws=3)
    curve = result.curves["from the end"]
    assert curve[0] == pytest.approx(0, abs=1e-5)
    for curve in result.curves.values():
        assert curve[-1] == pytest.approx(without(found, words) - base, abs=1e-4)
    losses = [without(found, words[len(words) - count :]) - base for count in range(len(words) + 1)]
    expected = np.interp(np.linspace(0, 1, 11), np.linspace(0, 1, len(words) + 1), losses)
    np.testing.assert_allclose(result.curves["from the end"], expected, atol=1e-4)
    assert result.areas["from the end"] == pytest.approx(expected.mean(), abs=1e-4)


def test_the_best_order_of_all_beats_chance_and_its_reverse_does_not():
    found = subject("translator")
    _, side = input_side(found)
    alone = np.array([without(found, [n]) for n in range(len(side))])
    orders = {"alone": lambda subject, stack: alone, "reversed": lambda subject, stack: -alone}
    result = deletion([found], orders, draws=30)
    assert result.areas["alone"] == pytest.approx(result.areas[ALONE])
    assert result.areas["alone"] > result.chance[0] > result.areas["reversed"]
    assert result.best == "alone"
    assert result.chance[0] == pytest.approx(result.areas[RANDOM])


@pytest.mark.parametrize("name", SOME)
def test_every_family(name):
    result = deletion([subject(name)], FEW, draws=3)
    assert result.curves.keys() == {*FEW, ALONE, RANDOM}
    assert np.isfinite([*result.areas.values()]).all()


def test_several_texts_and_what_is_left_out():
    def too_long(subject, stack):
        raise UserError("it takes too long.")

    two = [subject("translator"), subject("translator", "le chat voit le chien .")]
    result = deletion(two, {**FEW, "flow": too_long}, draws=4)
    parts = [deletion([one], FEW, draws=4) for one in two]
    for name in FEW:
        assert result.areas[name] == pytest.approx(np.mean([part.areas[name] for part in parts]))
    assert result.left_out == {"flow": "it takes too long."}
    assert result.lines()[-1] == "flow is left out: it takes too long."
    assert "2 texts" in result.lines()[1]
    assert result.as_dict()["best"] == result.best
    drawn = " ".join(text.get_text() for axes in result.figure().axes for text in axes.texts)
    assert result.lines()[1].split(": ")[1] in drawn  # a picture claims no more than the lines do
    assert "mean more nll" in html(result)
    with pytest.raises(UserError, match="no text"):
        deletion([])
