"""Grids, curves and atlases: what stands above them is whole, however long, and inside the sheet."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from regard.lens.plots import charts
from regard.lens.plots.charts import Curve, Field, Grid, atlas, curves
from regard.lens.plots.image_maps import sheet

TITLE = "the animal did not cross the street because it was too tired → l'animal n'a pas traversé la rue"
CAPTION = "gradient × input: predictions down, words across; right of the line, words already written, which the model reads too"


def drawn_grid(title: str, caption: str) -> Figure:
    return charts.grid(title, caption, Grid(np.ones((2, 3)), ["a", "b"], ["c", "d", "e"]))


def drawn_curves(title: str, caption: str) -> Figure:
    return charts.curves(title, caption, {"one": Curve([0, 1], [1, 2])}, "x", "y")


def drawn_atlas(title: str, caption: str) -> Figure:
    return atlas(title, caption, [Field("entropy", {"encoder.0.self": [0.5, 0.7]})])


def drawn_heat(title: str, caption: str) -> Figure:
    return sheet(title, caption, np.zeros((4, 4, 3), np.uint8), ["two"], np.full((1, 2, 2), 0.25))


@pytest.mark.parametrize("draw", [drawn_grid, drawn_curves, drawn_atlas, drawn_heat])
def test_a_heading_is_whole_and_fits(draw: object) -> None:
    figure = draw(TITLE, CAPTION)  # type: ignore[operator]
    figure.draw_without_rendering()
    texts = [text for axes in figure.axes for text in axes.texts if text.get_text()]
    told = " ".join(text.get_text() for text in texts)
    assert TITLE in told
    assert CAPTION in told
    width, height = figure.bbox.size
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= -1, text.get_text()
        assert box.x1 <= width + 1, text.get_text()
        assert -1 <= box.y0 <= box.y1 <= height + 1, text.get_text()


@pytest.mark.parametrize("draw", [drawn_grid, drawn_curves, drawn_atlas])
def test_what_is_drawn_stands_below_a_long_heading(draw: object) -> None:
    """And is as large as below a short one."""
    sizes = []
    for title, caption in (("a", "b"), (TITLE, CAPTION)):
        figure = draw(title, caption)  # type: ignore[operator]
        sizes.append(figure.get_size_inches())
    assert sizes[1][0] == sizes[0][0]
    assert 0.4 < sizes[1][1] - sizes[0][1] < 1.0


def test_the_name_of_an_axis_is_inside_the_sheet() -> None:
    """However many figures its numbers have."""
    figure = charts.curves("a", "b", {"one": Curve([0, 1], [-0.00123, 0.0001])}, "x", "more nll")
    figure.draw_without_rendering()
    assert figure.axes[1].yaxis.label.get_window_extent().x0 > 0.08 * figure.dpi


def test_curves_keep_their_size_below_a_long_heading() -> None:
    heights = [
        drawn_curves(*told).axes[1].get_position().height * drawn_curves(*told).get_size_inches()[1]
        for told in (("a", "b"), (TITLE, CAPTION))
    ]
    assert heights[0] == pytest.approx(heights[1])


def test_cells_without_a_number_are_explained() -> None:
    """A role that no cross-attention can have: white, which would read as 0."""
    whole, half = ({"a": [0.5], "b": [number]} for number in (0.1, float("nan")))
    for values, told in ((whole, False), (half, True), ({"a": [0.5]}, False)):
        texts = [text.get_text() for axes in atlas("t", "c", [Field("one", values)]).axes for text in axes.texts]
        assert any("white: does not apply" in text for text in texts) == told


def test_many_curves_have_a_colour_each() -> None:
    figure = curves("t", "c", {str(n): Curve([0, 1], [n, n]) for n in range(8)}, "x", "y")
    assert len({line.get_color() for axes in figure.axes for line in axes.lines if len(line.get_xdata()) == 2}) >= 8
