"""A classifier's image in a real Chromium: pixels of the veil are weights; clicks and keys lead to patches and heads."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pytest

from regard.lens.analyses.image_attention import image_rollout, latent_maps
from regard.lens.analyses.image_heads import image_heads
from regard.lens.analyses.image_relevance import relevances
from tests.studio.showing import drawn, until
from tests.studio.test_page import save
from tests.studio.tiny_captioner import SCENE as CAPTIONED
from tests.studio.tiny_captioner import CaptionOpening
from tests.studio.tiny_drawing import NAME as DRAWN_FROM
from tests.studio.tiny_drawing import DrawingOpening, drawing_session
from tests.studio.tiny_patches import PATCHES, SCENE, ClassifierOpening, classifier_session, open_scene, weights
from tests.studio.tiny_session import TinyOpening, TinySession, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.page


@pytest.fixture(scope="module")
def studio() -> Iterator[str]:
    runs: dict[str, Any] = {"vit": ClassifierOpening(), "pool": ClassifierOpening("sequence"), "mean": ClassifierOpening("mean")}
    runs["latent"] = ClassifierOpening("latent")
    with served({**runs, "pix": DrawingOpening(), "cap": CaptionOpening(), "tiny": TinyOpening(TinySession())}) as address:
        yield address


def open_view(page: Page, studio: str, screen: str = "run", **state: object) -> None:
    page.goto("about:blank")
    page.goto(f"{studio}/#/{screen}?{urlencode({'run': 'vit', 'text': SCENE, **state})}")
    drawn(page, screen)


ALPHA = """() => {
  const veil = document.querySelector('#veil');
  const copy = new OffscreenCanvas(veil.width, veil.height).getContext('2d', { willReadFrequently: true });
  copy.drawImage(veil, 0, 0);
  const { data } = copy.getImageData(0, 0, veil.width, veil.height);
  return JSON.stringify({ size: veil.width, alpha: Array.from(data).filter((_, n) => n % 4 === 3), ...veil.dataset });
}"""


def map_of(page: Page) -> np.ndarray:
    """Of every patch its middle dot: how thin the veil is there."""
    found: dict[str, Any] = json.loads(page.evaluate(ALPHA))
    alpha_YX = np.array(found["alpha"]).reshape(found["size"], found["size"])
    middles = ((np.arange(PATCHES) + 0.5) * found["size"] / PATCHES).astype(int)
    return (1 - alpha_YX[np.ix_(middles, middles)] / 255 / float(found["dark"])) * float(found["most"])


def shown_as(page: Page, expected_P: np.ndarray) -> None:
    expected = np.asarray(expected_P).reshape(PATCHES, PATCHES)
    assert np.ptp(expected) > 0.05 * expected.max()  # or any grey would do
    np.testing.assert_allclose(map_of(page), expected, atol=0.02 * expected.max())


def click_patch(page: Page, row: int, column: int, side: int = PATCHES) -> None:
    box = page.query_selector(".lit").bounding_box()  # type: ignore[union-attr]
    assert box is not None
    page.mouse.click(box["x"] + (column + 0.5) * box["width"] / side, box["y"] + (row + 0.5) * box["height"] / side)


def test_a_clicked_patch_is_shown_as_it_attends(page: Page, studio: str) -> None:
    every = np.stack([weights()[f"encoder.{n}.self"] for n in range(3)])  # LHTT
    open_view(page, studio)
    shown_as(page, every[:, :, 0, 1:].mean((0, 1)))  # of the class token, before anything is clicked
    click_patch(page, 2, 1)
    until(page, "location.hash.includes('cell=9')")
    drawn(page, "run")
    shown_as(page, every[:, :, 10, 1:].mean((0, 1)))
    assert "row 3, column 2" in page.inner_text("#told")
    page.click(".heads-sheet button >> nth=5")  # layer 2, head 1: behind the mean and head 0
    until(page, "location.hash.includes('at=encoder.1.self') && location.hash.includes('head=1')")
    drawn(page, "run")
    shown_as(page, every[1, 1, 10, 1:])
    assert page.query_selector("rect.query") is not None
    page.select_option("#one-head", "mean")
    until(page, "location.hash.includes('head=mean')")
    drawn(page, "run")
    shown_as(page, every[1, :, 10, 1:].mean(0))


def test_rollout_and_relevance_are_drawn_as_lens_has_them(page: Page, studio: str) -> None:
    subject = classifier_session().subject(SCENE, None)
    open_view(page, studio, view="rollout")
    shown_as(page, image_rollout(subject).maps_NYX[0])
    assert "could have come" in page.inner_text("#screen")
    assert page.evaluate("document.querySelectorAll('.heads-sheet button').length") == 3
    relevant = relevances(subject)[1]
    choice = max(range(4), key=lambda n: float(relevant(n)[1:].max()))
    page.click(f".classes button[data-choice='{choice}']")
    until(page, "location.hash.includes('view=relevance')")
    drawn(page, "run")
    shown_as(page, relevant(choice)[1:])
    assert page.get_attribute(f".classes button[data-choice='{choice}']", "aria-selected") == "true"


def test_a_query_that_pools_and_a_mean_have_views_of_their_own(page: Page, studio: str) -> None:
    open_view(page, studio, run="pool")
    shown_as(page, weights("sequence")["pooling"][0, 0])
    assert "Pooling" in page.inner_text(".segments")
    open_view(page, studio, run="mean")
    assert "Class token" not in page.inner_text(".segments")
    assert page.get_attribute(".segments button[data-value='rollout']", "aria-checked") == "true"


def test_latents_are_walked_through(page: Page, studio: str) -> None:
    open_view(page, studio, run="latent")
    subject = classifier_session("latent").subject(SCENE, None)
    expected = latent_maps(subject).maps_NYX
    assert "The answer, by way of the latents," in page.inner_text("#told")
    page.keyboard.press("l")
    until(page, "location.hash.includes('view=latents')")
    drawn(page, "run")
    page.click(".heads-sheet button >> nth=2")
    until(page, "location.hash.includes('latent=2')")
    drawn(page, "run")
    seen = page.evaluate("document.querySelector('#veil').dataset.rows")
    assert int(seen) == expected.shape[1]
    peak = int(expected[2].argmax())
    assert f"row {peak // expected.shape[2] + 1}, column {peak % expected.shape[2] + 1}" in page.inner_text("#told")
    page.keyboard.press("r")
    until(page, "location.hash.includes('view=rollout')")
    drawn(page, "run")
    for key in ("ArrowRight", "]", "."):
        page.keyboard.press(key)
    drawn(page, "run")


def test_roles_are_dots_that_lead_to_heads(page: Page, studio: str) -> None:
    open_view(page, studio, view="roles")
    heads = image_heads(classifier_session().subject(SCENE, None))
    page.wait_for_selector(".head-dot")
    assert page.evaluate("document.querySelectorAll('.head-dot').length") == len(heads)
    heights = page.evaluate("[...document.querySelectorAll('.head-dot')].map((one) => Number(one.getAttribute('cy')))")
    assert np.corrcoef(heights, [head.distance for head in heads])[0, 1] < -0.999  # farther is higher
    page.click(".head-dot[data-head='encoder.1.self:1']")
    until(page, "location.hash.includes('at=encoder.1.self') && location.hash.includes('head=1')")
    drawn(page, "run")
    assert "layer 2, head 1" in page.inner_text("#role")


def test_a_keyboard_is_enough(page: Page, studio: str) -> None:
    open_view(page, studio, view="patch", cell=0)
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    until(page, "location.hash.includes('cell=4')")  # it stops at the border
    for key, view in (("c", "class"), ("g", "relevance"), ("h", "roles"), ("r", "rollout")):
        page.keyboard.press(key)
        until(page, f"location.hash.includes('view={view}')")
        drawn(page, "run")
    page.keyboard.press("c")
    page.keyboard.press(".")
    until(page, "location.hash.includes('at=encoder.0.self') && location.hash.includes('head=0')")
    page.keyboard.press("]")
    until(page, "location.hash.includes('at=encoder.1.self') && location.hash.includes('head=0')")
    page.keyboard.press(",")
    until(page, "location.hash.includes('head=1')")
    drawn(page, "run")
    assert "layer 2, head 1" in page.inner_text("#told")
    assert page.inner_text("#said")
    page.keyboard.press("m")
    until(page, "!location.hash.includes('at=')")
    page.keyboard.press("Backspace")
    until(page, "document.querySelector('#veil').hidden")
    page.keyboard.press("n")
    until(page, "location.hash.includes('test%2F4')")
    drawn(page, "run")
    page.keyboard.press("Enter")
    drawn(page, "head")
    for number, screen in ((2, "atlas"), (5, "ablate"), (6, "arithmetic"), (7, "layers"), (9, "compare")):
        page.keyboard.press(str(number))
        drawn(page, screen)
        assert page.query_selector("#refused") is None, screen


def test_the_answer_stands_beside_the_label(page: Page, studio: str) -> None:
    open_view(page, studio)
    top = page.inner_text(".says b")
    assert top == classifier_session().answer(SCENE)
    assert page.inner_text("#label") == f"{'✓' if top == 'star' else '✗'} its label is star"
    rows = page.evaluate("[...document.querySelectorAll('.classes .number')].map((one) => Number(one.textContent.slice(0, -2)))")
    assert sum(rows) == pytest.approx(100, abs=0.3)
    assert rows == sorted(rows, reverse=True)


def test_a_file_is_taken_and_named(page: Page, studio: str) -> None:
    kept = io.BytesIO()
    open_scene().save(kept, "PNG")
    open_view(page, studio)
    page.set_input_files("#image-file", {"name": "mine.png", "mimeType": "image/png", "buffer": kept.getvalue()})
    until(page, "location.hash.includes('upload%3A')")
    drawn(page, "run")
    assert page.inner_text("#label") == "mine.png"
    page.set_input_files("#image-file", {"name": "no.png", "mimeType": "image/png", "buffer": b"no image"})
    until(page, "document.querySelector('#image-refused').textContent.startsWith('no.png')")


def test_from_one_kind_of_images_to_another_and_to_text(page: Page, studio: str) -> None:
    open_view(page, studio, view="rollout")
    page.select_option("#run", "cap")
    until(page, "document.querySelector('.caption-words') !== null")
    drawn(page, "run")
    assert CAPTIONED.rpartition("/")[0].replace("/", "%2F").replace(":", "%3A") in page.url
    page.select_option("#run", "vit")
    until(page, "document.querySelector('.classes') !== null")
    drawn(page, "run")
    page.select_option("#run", "tiny")
    until(page, "location.hash.includes('w5')")
    drawn(page, "run")
    assert page.query_selector(".classes") is None


@pytest.mark.parametrize("wide", [390, 1440])
def test_it_fits_narrow_and_wide_windows_in_both_lights(page: Page, studio: str, wide: int) -> None:
    page.set_viewport_size({"width": wide, "height": 900})
    page.emulate_media(color_scheme="dark")
    open_view(page, studio, view="roles")
    wider = "[...document.querySelectorAll('.seen .card')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    assert page.evaluate(wider) == 0


def test_what_is_seen_can_be_saved(page: Page, studio: str, tmp_path: Path) -> None:
    open_view(page, studio, view="patch", cell=5, at="encoder.2.self", head="0")
    seen = json.loads(save(page, "json", tmp_path).read_text())["data"]["seen"]
    np.testing.assert_allclose(seen["map"], weights()["encoder.2.self"][0, 6, 1:], atol=1e-5)
    assert seen["patch"] == 5
    assert save(page, "svg", tmp_path).read_text().count("<image") >= 3


def test_an_image_is_seen_as_it_is_drawn_and_then_looked_into(page: Page, studio: str) -> None:
    page.goto(f"{studio}/#/run?{urlencode({'run': 'pix', 'text': DRAWN_FROM})}")
    drawn(page, "run")
    assert "bits" in page.inner_text(".says")
    page.select_option("#draw-what", "class:night")
    page.fill("#draw-seed", "5")
    page.click("#draw")
    until(page, "location.hash.includes('upload%3A')")
    drawn(page, "run")
    assert page.inner_text("#label") == "night 5"
    expected = drawing_session().gallery.picture(page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('text')"))
    pixels = page.evaluate("Array.from(document.querySelector('#picture').getContext('2d').getImageData(0, 0, 6, 6).data)")
    assert (np.array(pixels).reshape(6, 6, 4)[..., :3] == expected.shown_YXC).all()
    click_patch(page, 1, 1, 6)
    until(page, "location.hash.includes('cell=7')")
    drawn(page, "run")
    assert "row 2, column 2" in page.inner_text("#told")
    assert page.evaluate(f"({LAST_ROW})()") == 0  # nothing below was there to attend to
    page.keyboard.press("d")
    until(
        page,
        "document.querySelector('#label').textContent === 'day 6' || document.querySelector('#label').textContent === 'night 6'",
    )


LAST_ROW = """() => {
  const veil = document.querySelector('#veil');
  const copy = new OffscreenCanvas(veil.width, veil.height).getContext('2d');
  copy.drawImage(veil, 0, 0);
  const dark = 255 * Number(veil.dataset.dark);
  const { data } = copy.getImageData(0, veil.height - 4, veil.width, 4);
  return data.filter((_, n) => n % 4 === 3).filter((alpha) => alpha < dark - 2).length;
}"""
