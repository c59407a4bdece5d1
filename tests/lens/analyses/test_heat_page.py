"""The page of heat maps in a real Chromium: silent, alone, obedient to keys and pointer, and lit where the numbers say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from regard.lens.result import save
from tests.lens.analyses.test_image_heat import some
from tests.lens.test_picture_page import CHROMIUM, QUIET

if TYPE_CHECKING:
    from playwright.sync_api import Page

WORDS = ("two", "</script><img src=x onerror=window.stolen=1>", "circles")
LIT = """() => {
  const veil = document.getElementById("veil");
  if (veil.hidden) return null;
  const copy = new OffscreenCanvas(4, 4).getContext("2d", { willReadFrequently: true });
  const cell = veil.width / 4;
  const middle = (n) => (n + 0.5) * cell - 0.5;
  for (let y = 0; y < 4; y++)
    for (let x = 0; x < 4; x++) copy.drawImage(veil, middle(x), middle(y), 1, 1, x, y, 1, 1);
  const { data } = copy.getImageData(0, 0, 4, 4);
  return Array.from({ length: 16 }, (_, n) => 1 - data[4 * n + 3] / 255 / 0.8);
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    path: Path = tmp_path_factory.mktemp("page") / "heat.html"
    save(some(WORDS), path)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        made = browser.new_page(viewport={"width": 390, "height": 700})
        complaints: list[str] = []
        made.on("console", lambda message: complaints.append(message.text))
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.on("request", lambda request: complaints.append(request.url) if not request.url.startswith("file:") else None)
        made.goto(path.as_uri())
        yield made
        browser.close()
        assert [told for told in complaints if "readback" not in told] == []  # which is what this test does to the canvas


def light(page: Page) -> np.ndarray:
    """How much light the veil leaves in the middle of each of 4 × 4 cells, as a share of that at the peak."""
    page.wait_for_selector("#screen[data-ready='1']")
    return np.array(page.evaluate(LIT), float).reshape(4, 4)


def told(page: Page) -> str:
    page.wait_for_selector("#screen[data-ready='1']")
    return page.inner_text(".seen .card > p.muted >> nth=0")


def test_a_word_lights_its_cell(page: Page) -> None:
    page.keyboard.press("Escape")
    assert told(page).startswith("read as 4 × 4 cells, mean over the heads of decoder.0.cross")
    assert page.evaluate(LIT) is None
    page.keyboard.press("ArrowRight")
    assert told(page).startswith("two: 0.700 at row 2, column 2 of 4 × 4 cells")
    map_YX = some(WORDS).maps_LYX[0]
    np.testing.assert_allclose(light(page), map_YX / map_YX.max(), atol=0.01)


def test_keys_stop_at_both_ends_and_the_pointer_chooses(page: Page) -> None:
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert told(page).startswith("circles: ")
    page.hover(".contact-sheet button:nth-child(1)")
    assert told(page).startswith("two: ")
    page.click(".contact-sheet button:nth-child(1)")
    page.wait_for_selector(".caption-words button:nth-child(1)[aria-selected=true]")


def test_words_are_text_and_nothing_is_wider_than_a_telephone(page: Page) -> None:
    assert page.locator(".caption-words b").all_text_contents()[1].startswith("</script><img")
    assert page.evaluate("window.stolen") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
