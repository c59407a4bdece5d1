"""The picture of a word's uses: a sheet whose words are words, a page that is inert and obedient, numbers that come back."""

from __future__ import annotations

import json
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.core.errors import UserError
from regard.lens.analyses.word_senses import UsesInLayer, WordUses
from regard.lens.plots import word_senses
from regard.lens.plots.render import render_figure
from regard.lens.plots.word_senses import drawn, planned
from regard.lens.result import save
from tests.lens.some_uses import some, use
from tests.lens.test_picture_page import HOSTILE, Parts, Visit, browser  # noqa: F401


def svg(found: WordUses, layer: int) -> bytes:
    return render_figure(UsesInLayer(found, layer).figure, "svg")


def html(found: WordUses, layer: int) -> bytes:
    return UsesInLayer(found, layer).page()


def words(picture: bytes) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def hostile() -> WordUses:
    uses = tuple(use(f"{token} bank {token}", sense=token) for token in HOSTILE if "\ud800" not in token)
    vectors = np.random.default_rng(0).normal(size=(len(uses), 4))
    return WordUses("bank", HOSTILE[0], uses, (vectors, vectors), np.full(2, np.nan))


@pytest.mark.parametrize(("count", "layers", "senses"), [(2, 1, 0), (4, 12, 0), (12, 6, 2), (110, 24, 3)])
def test_everything_stands_on_the_sheet(count: int, layers: int, senses: int) -> None:
    figure = drawn(some(count, layers, senses), layers + 1)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (axes,) = figure.axes
    whole = figure.bbox
    for text in axes.texts:
        box = text.get_window_extent(canvas.get_renderer())
        assert whole.x0 - 1 <= box.x0, text.get_text()
        assert box.x1 <= whole.x1 + 1, text.get_text()
        assert whole.y0 <= box.y0, text.get_text()
        assert box.y1 <= whole.y1, text.get_text()


def test_the_sheet_says_what_was_measured() -> None:
    found = some(6, 3, senses=2)
    assert found.senses is not None
    told = words(svg(found, 4))
    assert {"words", "0", "1", "2", "3", "static", "sense 0", "sense 1"} <= set(told)
    assert f"one sense  {found.senses.within_L[-1]:.2f}" in told
    assert told.count("bank") == 6
    numbers = [f"{100 * (1 - found.distances_LUU[4][a, b]):.0f}" for a, b in found.pairs]
    assert all(told.count(number) >= 2 for number in numbers)
    assert "cosine similarity, layer 1" in words(svg(found, 2))
    assert "cosine similarity, static embedding" in words(svg(found, 0))


def test_uses_of_one_sense_stand_together() -> None:
    found = some(7, senses=3)
    sheet = planned(found, 1)
    assert [found.uses[n].sense for n in sheet.order] == ["sense 0"] * 3 + ["sense 1"] * 2 + ["sense 2"] * 2


def test_curves_start_at_0_and_end_at_the_distances() -> None:
    found = some(3, layers=4)
    (axes,) = drawn(found, 5).axes
    bold = [line for line in axes.lines if line.get_linewidth() == 2.2]
    assert len(bold) == 3
    box = planned(found, 5).curves
    for line, distances_L in zip(bold, found.pairs_LP.T):
        heights = box.top + box.height - np.asarray(line.get_ydata())
        assert heights[0] == 0
        np.testing.assert_allclose(heights / heights.max(), distances_L / distances_L.max(), atol=1e-9)


@pytest.mark.parametrize("most", [1e-5, 0.004, 0.03, 0.2, 0.999, 2.0])
def test_ticks_reach_over_the_greatest(most: float) -> None:
    ticks = word_senses._ticks(most)
    assert ticks[0] == 0
    assert ticks[-1] >= most - 1e-9
    assert len(ticks) <= 7


def test_the_same_file_twice_and_no_warning_for_anything() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len({render_figure(UsesInLayer(hostile(), 1).figure, "png") for _ in range(2)}) == 1
        assert svg(some(5, senses=2), 1) == svg(some(5, senses=2), 1)


def test_json_gives_the_numbers_back(tmp_path: Path) -> None:
    found = some(5, senses=2)
    save(UsesInLayer(found, 1), tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["format"] == "regard.uses.1"
    np.testing.assert_array_equal(read["distances"], found.distances_LUU)
    assert read["senses"].keys() == {"within", "between", "score"}
    assert read["uses"][1]["sentence"] == found.uses[1].sentence
    assert read["layers"] == list(found.layers)
    save(UsesInLayer(hostile(), 1), tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text())["other_words"] == [None, None]


def test_endings_and_places(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must end in"):
        save(UsesInLayer(some(), 1), tmp_path / "a.jpg")
    with pytest.raises(UserError, match="cannot be written"):
        save(UsesInLayer(some(), 1), tmp_path / "no" / "a.json")


# ------------------------------------------------------------------------------------------------------------------ the page


def test_the_page_is_inert_and_alone() -> None:
    page = html(hostile(), 1)
    assert [tag for tag, _ in Parts(page).tags] == [tag for tag, _ in Parts(html(some(), 1)).tags]
    assert not re.search("[<>&\u2028\u2029\u202e]", Parts(page).raw[1])
    assert not re.search(rb"(src|href)\s*=|@import|url\(|fetch\(|XMLHttpRequest|innerHTML", html(some(), 1))
    assert len(html(some(60, 12), 1)) < 200_000


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Visit]:  # noqa: F811
    (tmp_path / "uses.html").write_bytes(html(some(6, 3, senses=2), 4))
    opened = Visit(browser, tmp_path / "uses.html")
    yield opened
    opened.close()


@pytest.mark.page
def test_layers_are_chosen_and_pairs_followed(visit: Visit) -> None:
    found, page = some(6, 3, senses=2), visit.page
    assert found.senses is not None
    assert f"layer 3: different senses {found.senses.between_L[4]:.3f} · one sense {found.senses.within_L[4]:.3f}" in str(
        page.text_content("#caption")
    )
    page.keyboard.press("ArrowLeft")
    assert page.text_content(".uses-view output") == "layer 2"
    box = page.locator(".pair-matrix").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.75)  # row 5, column 2 of the order
    a, b = found.order[4], found.order[1]
    assert page.locator(".pair-detail p").first.text_content() == f"Distance {found.distances_LUU[3][a, b]:.3f} in layer 2"
    assert page.locator(".use.on").count() == 2
    assert page.locator(".pair-curves .on").count() == 1
    page.mouse.click(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.75)
    page.hover("h1")
    assert page.locator(".use.pinned").count() == 2
    page.keyboard.press("Escape")
    assert page.locator(".use.pinned").count() == 0
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    assert page.text_content(".uses-view output") == "the static embedding"
    page.hover(".use >> nth=0")
    assert page.locator(".pair-curves .on").count() == 5


@pytest.mark.page
@pytest.mark.parametrize(("width", "scheme"), [(1500, "light"), (1500, "dark"), (420, "light")])
def test_hostile_sentences_do_nothing_at_any_width(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:  # noqa: F811
    (tmp_path / "hostile.html").write_bytes(html(hostile(), 1))
    visit = Visit(browser, tmp_path / "hostile.html", width, scheme)
    visit.page.hover(".use >> nth=1")
    assert visit.page.evaluate("window.stolen") is None
    assert visit.page.locator("img").count() == 0
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.close()
