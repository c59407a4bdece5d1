"""The page of heat maps in a real Chromium: silent, alone, obedient to keys and pointer, and lit where the numbers say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from regard.lens.analyses import image_heat
from tests.lens.analyses.test_image_heat import some
from tests.lens.test_picture_page import CHROMIUM, QUIET

if TYPE_CHECKING:
    from playwright.sync_api import Page

WORDS = ("two", "</script><img src=x onerror=window.stolen=1>", "circles")
LIT = """() => {
  const canvas = document.getElementById("large"), { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  return Array.from({ length: width * height }, (_, n) => data[4 * n] + data[4 * n + 1] + data[4 * n + 2]);
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    path: Path = tmp_path_factory.mktemp("page") / "heat.html"
    image_heat.save(some(WORDS), path)
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


def shown(page: Page) -> np.ndarray:
    return np.array(page.evaluate(LIT), float).reshape(32, 48)


def test_a_word_lights_its_cell(page: Page) -> None:
    page.keyboard.press("Escape")
    plain = shown(page)
    assert (plain == some(WORDS).image_YXC.astype(int).sum(-1)).all()
    assert page.inner_text("#caption") == "the image, 4 × 4 cells; for each word the mean over the heads of decoder.0.cross"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#caption") == "two: 0.70 at row 2, column 2 of 4 × 4 cells"
    kept = shown(page) / plain
    assert kept[8:16, 12:24].mean() > 2 * kept[24:, 36:].mean()
    assert kept[24:, 36:].max() < 0.4


def test_keys_stop_at_both_ends_and_the_pointer_chooses(page: Page) -> None:
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert page.inner_text("#caption").startswith("circles: ")
    page.hover("#sheet figure:nth-child(1)")
    assert page.inner_text("#caption").startswith("two: ")
    assert page.get_attribute("#words button:nth-child(1)", "aria-pressed") == "true"


def test_words_are_text_and_nothing_is_wider_than_a_telephone(page: Page) -> None:
    assert page.inner_text("#words button:nth-child(2)") == WORDS[1].replace(" ", "␣")
    assert page.evaluate("window.stolen") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
