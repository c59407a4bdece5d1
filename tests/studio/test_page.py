"""The page in a real Chromium: pixels are weights, keys lead everywhere, nothing leaves the machine, what is saved reopens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.studio.app import assets
from regard.studio.arithmetic import Place, arithmetic, trace
from regard.studio.passes import ModelPass
from tests.studio.showing import SCREENS, TEXT, drawn, numbers_of, open_view, until
from tests.studio.tiny_session import tiny_pass

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.page


def passed() -> ModelPass:
    return tiny_pass(TEXT)


def weights(name: str) -> np.ndarray:
    return passed().attention(name).weights()[0].numpy()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("name", "head"), [("decoder.1.cross", 1), ("encoder.0.self", 0), ("decoder.0.self", 1)])
def test_pixels_are_the_models_weights(page: Page, studio: str, name: str, head: int, theme: str) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    open_view(page, studio, "head", at=name, head=head)
    expected = weights(name)[head]
    np.testing.assert_allclose(numbers_of(page, ".matrix canvas.cells", *expected.shape), expected, atol=1e-2)


def test_heads_together_and_marks_hidden(page: Page, studio: str) -> None:
    open_view(page, studio, "head", at="decoder.1.cross", head="mean")
    expected = weights("decoder.1.cross").mean(0)
    np.testing.assert_allclose(numbers_of(page, ".matrix canvas.cells", *expected.shape), expected, atol=1e-2)
    page.keyboard.press("h")
    until(page, "document.querySelector('.matrix svg').textContent.includes('<eos>') === false")
    np.testing.assert_allclose(numbers_of(page, ".matrix canvas.cells", 5, 5), expected[:5], atol=1e-2)


def test_numbers_of_the_arithmetic_are_the_models(page: Page, studio: str) -> None:
    from threading import Lock

    open_view(page, studio, "arithmetic", at="decoder.1.cross", head=1, q=2, k=3)
    model_pass, place = passed(), Place("decoder.1.cross", 1, 2, 3)
    found = arithmetic(trace(model_pass, place, Lock()))
    said = page.inner_text("#screen")
    assert "✓ equal to the model's" in said
    assert f"{found['dot']:.2f}".replace("-", "−")[:5] in said.replace("\n", " ")
    page.focus("canvas.vector[data-name=q]")
    page.wait_for_selector(".source table")
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.source h2').textContent.startsWith('q[1]')")
    assert f"{found['q'][1]:.4f}".replace("-", "−")[:5] in page.inner_text(".source h2")
    page.wait_for_selector(".source table")
    assert "cross.layer.query.weight, row 17" in page.inner_text(".source")


def test_a_keyboard_is_enough(page: Page, studio: str) -> None:
    open_view(page, studio, "run")
    for number, screen in enumerate(SCREENS, start=1):
        page.keyboard.press(str(number))
        drawn(page, screen)
        assert page.url.split("#/")[1].startswith(screen)
    page.keyboard.press("2")
    drawn(page, "atlas")
    for key in ("ArrowUp", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    drawn(page, "head")
    assert "at=decoder.0.cross" in page.url
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    drawn(page, "arithmetic")
    assert re.search(r"q=1\b", page.url)
    page.keyboard.press("3")
    drawn(page, "head")
    page.keyboard.press("x")
    drawn(page, "ablate")
    assert "off=decoder.0.cross%3A1" in page.url
    page.wait_for_selector(".effect table")
    page.keyboard.press("Backspace")
    until(page, "!location.hash.includes('off=')")
    page.keyboard.press("4")
    drawn(page, "beam")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('force=')")
    drawn(page, "beam")
    page.keyboard.press("/")
    page.keyboard.type("w8 w9")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('w8+w9')")
    page.keyboard.press("?")
    assert "Everywhere" in page.inner_text("dialog")
    page.keyboard.press("Escape")


def test_a_view_is_its_address(page: Page, studio: str) -> None:
    open_view(page, studio, "head", at="encoder.1.self", head=1, q=3, k=1, hide=1, each=2)
    before = page.inner_text("#screen")
    page.reload()
    drawn(page, "head")
    assert page.inner_text("#screen") == before
    page.keyboard.press("2")
    drawn(page, "atlas")
    page.go_back()
    drawn(page, "head")
    assert page.inner_text("#screen") == before


def test_the_page_says_that_weights_are_what_ran_and_not_what_matters(page: Page, studio: str) -> None:
    open_view(page, studio, "run")
    assert "✓" in page.inner_text("#faith")
    for screen in ("atlas", "head", "arithmetic", "compare"):
        open_view(page, studio, screen, at="decoder.1.cross", head=1)
        assert "Weight is not cause" in page.inner_text("#screen")
        page.click("#to-ablation")
        drawn(page, "ablate")
        assert "off=decoder.1.cross%3A1" in page.url


SAYS = {"atlas": "decoder 2 cross, head 1", "ablate": "Nothing is off", "arithmetic": "Two tokens"}


@pytest.mark.parametrize("screen", SCREENS)
def test_what_is_seen_can_be_saved_and_opened_again(page: Page, studio: str, screen: str, tmp_path: Path) -> None:
    open_view(page, studio, screen, at="decoder.1.cross", head=1)
    kinds = ("svg", "json", "html") + (("png",) if screen in ("head", "beam") else ())  # it is drawn from the svg, and takes long
    saved = {kind: save(page, kind, tmp_path) for kind in kinds}
    drawing = ElementTree.parse(saved["svg"]).getroot()
    words = " ".join(drawing.itertext())
    assert SAYS.get(screen, "w7") in words
    assert not [node for node in drawing.iter() if node.tag.endswith(("script", "foreignObject"))]
    if "png" in saved:
        assert saved["png"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        width = int.from_bytes(saved["png"].read_bytes()[16:20], "big")
        assert width == 2 * int(drawing.attrib["width"])
    data: dict[str, Any] = json.loads(saved["json"].read_text())
    html = saved["html"].read_text()
    inside = re.search(r'<script type="application/json" id="data">(.*)</script>', html, re.S)
    assert inside is not None
    assert json.loads(inside[1])["data"] == data["data"]
    page.goto("about:blank")
    page.goto(f"{studio}/{data['address']}")
    drawn(page, screen)
    assert json.loads(save(page, "json", tmp_path).read_text())["data"] == data["data"]


def save(page: Page, kind: str, folder: Path) -> Path:
    page.keyboard.press("e")
    with page.expect_download() as found:
        page.click(f"dialog [data-kind={kind}]")
    path = folder / f"saved.{kind}"
    found.value.save_as(path)
    return path


def test_exported_weights_are_the_models(page: Page, studio: str, tmp_path: Path) -> None:
    open_view(page, studio, "head", at="decoder.1.cross", head=1)
    data = json.loads(save(page, "json", tmp_path).read_text())["data"]
    expected = weights("decoder.1.cross")[1]
    np.testing.assert_allclose(np.array(data["weights"]).reshape(expected.shape), expected, atol=1e-5)
    assert data["keys"] == TEXT.split()


def test_a_long_text_opens_as_an_overview(page: Page, studio: str) -> None:
    text = " ".join(f"w{3 + n % 37}" for n in range(300))
    open_view(page, studio, "head", text=text, target="w5 w6", at="encoder.0.self", head=1, q=150, k=160)
    expected = tiny_look_of(text).attention("encoder.0.self").weights([1])[0, 0].numpy()
    assert "each dot is the largest weight of 1 × 1" in page.inner_text("#screen")
    rows, columns = slice(126, 174), slice(136, 184)
    found = numbers_of_tile(page)
    np.testing.assert_allclose(found[:20], expected[rows, columns][:20], atol=1e-2)
    page.keyboard.press("ArrowDown")
    until(page, "document.querySelector('.long').textContent.includes('rows 127')")


def tiny_look_of(text: str) -> ModelPass:
    from threading import Lock

    from regard.studio.passes import PassRequest, run_pass
    from tests.studio.tiny_session import TinySession

    return run_pass(PassRequest("tiny", text, "w5 w6"), TinySession(), Lock())


def numbers_of_tile(page: Page) -> np.ndarray:
    """Only rows above the mark, whose frame is drawn over the cells."""
    page.evaluate("document.querySelector('#tile').dataset.read = 1")
    return numbers_of(page, "#tile", 48, 48)


def test_a_mistake_is_told_and_mended(page: Page, studio: str) -> None:
    open_view(page, studio, "run")
    page.fill("#text", "  ")
    page.keyboard.press("Enter")
    page.wait_for_selector("#refused", state="attached")
    assert re.fullmatch(r"[A-Z].*[.]", page.inner_text("#refused"))
    page.fill("#text", "w5 w6")
    page.keyboard.press("Enter")
    page.wait_for_selector("#refused", state="detached")
    until(page, "location.hash.includes('text=w5+w6')")
    drawn(page, "run")
    assert "w5" in page.inner_text("#screen")


def test_readable_at_both_sizes_and_in_both_lights(page: Page, studio: str) -> None:
    for width, height in ((1366, 768), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        for screen in SCREENS if width == 1366 else ("head", "atlas", "compare"):
            open_view(page, studio, screen)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen
            assert page.evaluate("document.querySelectorAll('*').length") < 3000, screen
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_the_page_is_small() -> None:
    files = assets()
    assert sum(len(body) for name, (body, _) in files.items() if not name.startswith("offline")) <= 258_000
    for name, (body, _) in files.items():
        assert len(body.decode().splitlines()) <= 230, name
        assert "http://" not in body.decode().replace("http://www.w3.org", ""), name
        assert "https://" not in body.decode(), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", body.decode()), name
