"""Images in a real Chromium: the veil's pixels are weights, keys lead everywhere, files are taken or refused, none runs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pytest

from regard.data.sources.captions import open_image
from tests.studio.showing import SCREENS, drawn, until
from tests.studio.test_hostile import HOSTILE, RUNS
from tests.studio.test_page import save
from tests.studio.tiny_captioner import CELLS, SCENE, CaptionOpening, caption_weights, captioner_session, read
from tests.studio.tiny_session import TinyOpening, TinySession, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.page


@pytest.fixture(scope="module")
def studio() -> Iterator[str]:
    with served({"cap": CaptionOpening(), "tiny": TinyOpening(TinySession())}) as address:  # type: ignore[dict-item]
        yield address


def open_view(page: Page, studio: str, screen: str = "run", **state: object) -> None:
    page.goto("about:blank")
    page.goto(f"{studio}/#/{screen}?{urlencode({'run': 'cap', 'text': SCENE, **state})}")
    drawn(page, screen)


ALPHA = """() => {
  const veil = document.querySelector('#veil');
  const { data } = veil.getContext('2d', { willReadFrequently: true }).getImageData(0, 0, veil.width, veil.height);
  return JSON.stringify({ size: veil.width, alpha: Array.from(data).filter((_, n) => n % 4 === 3), ...veil.dataset });
}"""


def weights_of(page: Page) -> np.ndarray:
    """Of every cell its middle dot: how thin the veil is there."""
    found: dict[str, Any] = json.loads(page.evaluate(ALPHA))
    alpha_YX = np.array(found["alpha"]).reshape(found["size"], found["size"])
    middles = ((np.arange(CELLS) + 0.5) * found["size"] / CELLS).astype(int)
    return (1 - alpha_YX[np.ix_(middles, middles)] / 255 / float(found["dark"])) * float(found["most"])


@pytest.mark.parametrize(("at", "head"), [("", ""), ("decoder.0.cross", "mean"), ("decoder.1.cross", "1")])
def test_pixels_of_the_veil_are_the_models_weights(page: Page, studio: str, at: str, head: str) -> None:
    every = caption_weights()
    chosen = [every[at]] if at else list(every.values())
    expected_LM = np.mean([w[[int(head)]].mean(0) if head.isdigit() else w.mean(0) for w in chosen], axis=0)
    assert np.ptp(expected_LM) > 0.1  # or any grey would do
    for word in (0, 2):
        open_view(page, studio, q=word, at=at, head=head)
        np.testing.assert_allclose(weights_of(page), expected_LM[word].reshape(CELLS, CELLS), atol=1e-2)


def test_the_caption_and_its_chances_are_the_models(page: Page, studio: str) -> None:
    open_view(page, studio)
    words = page.evaluate("[...document.querySelectorAll('.caption-words b')].map((word) => word.textContent)")
    (best,) = captioner_session().writer.write(read()[None])[0]
    assert " ".join(words).startswith(best.text)
    assert "✓" in page.inner_text("#faith")
    assert page.evaluate("document.querySelector('#veil').hidden")
    drawn_pixels = page.evaluate("Array.from(document.querySelector('#picture').getContext('2d').getImageData(9, 7, 1, 1).data)")
    assert drawn_pixels[:3] == np.asarray(open_image(SCENE))[7, 9].tolist()


def test_a_keyboard_is_enough(page: Page, studio: str) -> None:
    open_view(page, studio)
    for key in ("ArrowRight", "ArrowRight", "."):
        page.keyboard.press(key)
    until(page, "location.hash.includes('q=1') && location.hash.includes('at=decoder.0.cross')")
    assert "Weight is not cause" in page.inner_text("#screen")
    for key in (".", "ArrowLeft", "n"):
        page.keyboard.press(key)
    until(page, "location.hash.includes('test%2F4')")
    drawn(page, "run")
    page.keyboard.press("p")
    until(page, "location.hash.includes('test%2F3')")
    drawn(page, "run")
    page.keyboard.press("x")
    drawn(page, "ablate")
    assert "off=decoder.0.cross%3A0" in page.url
    for number, screen in enumerate(SCREENS, start=1):
        page.keyboard.press(str(number))
        drawn(page, screen)
        assert page.query_selector("#refused") is None, screen
        for key in ("ArrowRight", "ArrowDown"):
            page.keyboard.press(key)


def test_all_images_can_be_turned_to(page: Page, studio: str) -> None:
    open_view(page, studio)
    assert page.evaluate("document.querySelectorAll('.shelf button').length") == 24
    page.click("[aria-label='More images']")
    until(page, "document.querySelectorAll('.shelf button').length === 6")
    page.click(".shelf button:last-child")
    until(page, "location.hash.includes('test%2F29')")
    drawn(page, "run")
    assert page.get_attribute(".shelf button:last-child", "aria-selected") == "true"


def png(name: str = SCENE) -> bytes:
    kept = io.BytesIO()
    open_image(name).save(kept, "PNG")
    return kept.getvalue()


DROP = """async ([bytes, name]) => {
  const given = new DataTransfer();
  given.items.add(new File([new Uint8Array(bytes)], name));
  const event = new DragEvent('drop', { dataTransfer: given, bubbles: true, cancelable: true });
  document.querySelector('#screen').dispatchEvent(event);
}"""


def test_files_are_taken_whatever_they_are_called(page: Page, studio: str) -> None:
    open_view(page, studio)
    before = page.inner_text(".caption-words")
    for name in HOSTILE[:4]:
        page.evaluate(DROP, [[*b"no image"], name])
        until(page, f"document.querySelector('#image-refused').textContent.startsWith({json.dumps(name)})")
    page.set_input_files("#image-file", {"name": HOSTILE[2], "mimeType": "image/png", "buffer": png()})
    until(page, f"document.querySelector('#screen').innerText.includes({json.dumps(HOSTILE[2])})")
    assert page.evaluate("location.hash.includes('upload%3A')")
    assert page.inner_text(".caption-words") == before
    assert page.evaluate("window.stolen") is None
    assert RUNS in HOSTILE[2]
    page.evaluate(DROP, [[*png("builtin:scenes/test/9")], "dropped.png"])
    until(page, "document.querySelector('#screen').innerText.includes('dropped.png')")


def test_an_image_that_is_gone_leaves_the_others_to_choose_from(page: Page, studio: str) -> None:
    page.goto(f"{studio}/#/run?{urlencode({'run': 'cap', 'text': 'upload:0123456789'})}")
    page.wait_for_selector("#refused")
    assert "no longer kept" in page.inner_text("#refused")
    page.keyboard.press("ArrowRight")
    page.click(".shelf button")
    page.wait_for_selector("#refused", state="detached")
    drawn(page, "run")


def test_from_images_to_text_and_back(page: Page, studio: str) -> None:
    open_view(page, studio)
    page.select_option("#run", "tiny")
    until(page, "location.hash.includes('w5')")
    drawn(page, "run")
    assert page.query_selector("#picture") is None
    page.select_option("#run", "cap")
    until(page, "location.hash.includes('scenes')")
    drawn(page, "run")
    assert page.query_selector("#picture") is not None


def test_what_is_seen_can_be_saved(page: Page, studio: str, tmp_path: Path) -> None:
    open_view(page, studio, q=1, at="decoder.1.cross", head="0")
    data = json.loads(save(page, "json", tmp_path).read_text())["data"]["seen"]
    np.testing.assert_allclose(data["words"][1]["map"], caption_weights()["decoder.1.cross"][0, 1], atol=1e-5)
    assert save(page, "svg", tmp_path).read_text().count("<image") >= 3
