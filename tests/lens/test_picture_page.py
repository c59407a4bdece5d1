"""The page: inert as a file, and in a real Chromium silent, alone and obedient to keys, pointer and slider."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.lens.alignment import Alignment
from regard.lens.output.attention_page import STEPS, html

HOSTILE = (
    "</script><img/src=x/onerror=window.stolen=1>",
    "<script>window.stolen=1</script>",
    "<!--<script>",
    "{{script}}",
    "\u2028\u2029&lt;",
    "\u202e",
    "]]>\ud800",
)
CHROMIUM = shutil.which("chromium")
QUIET = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def some(queries: tuple[str, ...], keys: tuple[str, ...], layers: int = 2, heads: int = 3, title: str = "a title") -> Alignment:
    draw = np.random.default_rng(0).dirichlet(np.full(len(keys), 0.4), size=(layers, heads, len(queries)))
    return Alignment(title, queries, keys, draw, tuple(f"decoder.{n}.cross" for n in range(layers)))


def known() -> Alignment:
    """Two layers of two heads over two queries and three keys, every number chosen."""
    first = [[[1, 0, 0], [0, 1, 0]], [[0, 0.25, 0.75], [0.5, 0.5, 0]]]
    second = [[[0, 1, 0], [0, 1, 0]], [[0.2, 0.3, 0.5], [0, 0, 1]]]
    weights = np.array([first, second])
    return Alignment("a title", ("il", "était"), ("the", "animal", "it"), weights, ("decoder.0.cross", "decoder.1.cross"))


class Parts(HTMLParser):
    """What Python's own parser makes of the page: the elements, and the text within scripts and styles."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[str] = []
        self.feed(page.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style") and data.strip():
            self.raw.append(data)


def test_the_policy_names_the_one_script_and_the_one_style() -> None:
    parts = Parts(html(some(("a",), ("b",))))
    style, _, script = parts.raw
    (policy,) = (given["content"] for tag, given in parts.tags if given.get("http-equiv") == "Content-Security-Policy")
    digests = [base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in (script, style)]
    assert policy is not None
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; ")
    assert "unsafe" not in policy


def test_hostile_tokens_add_no_element_and_come_back_as_data() -> None:
    plain = Parts(html(some(("a",) * 7, ("b",) * 7)))
    hostile = Parts(html(some(HOSTILE, HOSTILE, title=HOSTILE[0])))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert not re.search("[<>&\u2028\u2029\u202e]", hostile.raw[1])
    data = json.loads(hostile.raw[1])
    assert data["queries"][:4] == list(HOSTILE[:4])
    assert data["queries"][4:] == ["\\u2028\\u2029&lt;", "\\u202e", "]]>\\ud800"]


def test_weights_travel_to_within_half_a_step() -> None:
    alignment = some(("a", "b"), ("x", "y", "z"))
    data = json.loads(Parts(html(alignment)).raw[1])
    steps = np.frombuffer(base64.b64decode(data["weights"]), dtype="<u2").reshape(alignment.weights.shape)
    np.testing.assert_allclose(steps / STEPS, alignment.weights, atol=0.51 / STEPS)


def test_six_layers_of_eight_heads_over_sixty_tokens_stay_small() -> None:
    page = html(some(("▁fatigué",) * 60, ("▁tired",) * 60, layers=6, heads=8))
    assert len(page) < 600_000
    assert not re.search(rb"(src|href)\s*=|@import|url\(|fetch\(|XMLHttpRequest|innerHTML", page)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


class Visit:
    """A page opened from its file, with everything it says and asks for written down."""

    def __init__(self, browser: Any, path: Path, width: int = 1280, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.url = path.as_uri()
        self.page.goto(self.url)

    def lines(self) -> set[tuple[int, int]]:
        found = self.page.evaluate("[...document.querySelectorAll('#lines path')].map(p => [+p.dataset.q, +p.dataset.k])")
        return {(q, k) for q, k in found}

    def caption(self) -> str:
        return str(self.page.text_content("#caption"))

    def shades(self) -> np.ndarray:
        """The pixel in the middle of every cell of a matrix of two by three, (2, 3, RGB)."""
        width, height, pixels = self.page.evaluate(
            """() => { const {width, height} = document.getElementById('matrix');
            const pen = document.getElementById('matrix').getContext('2d');
            return [width, height, [...pen.getImageData(0, 0, width, height).data]] }"""
        )
        image = np.array(pixels).reshape(height, width, 4)
        return image[height // 4 :: height // 2, width // 6 :: width // 3, :3]

    def close(self) -> None:
        self.page.close()
        assert self.said == []
        assert self.asked == [self.url]


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Visit]:
    (tmp_path / "known.html").write_bytes(html(known()))
    opened = Visit(browser, tmp_path / "known.html")
    yield opened
    opened.close()


@pytest.mark.page
def test_arrows_move_through_heads_and_layers(visit: Visit) -> None:
    press = visit.page.keyboard.press
    assert visit.caption().startswith("mean over 2 × 2 heads")
    assert visit.lines() == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)}
    press("ArrowRight")
    press("ArrowRight")
    assert visit.caption().startswith("decoder.0.cross, head 0")
    assert visit.lines() == {(0, 0), (1, 1)}
    press("ArrowDown")
    assert visit.caption().startswith("decoder.1.cross, head 0")
    assert visit.lines() == {(0, 1), (1, 1)}
    press("ArrowLeft")
    assert visit.caption().startswith("decoder.1.cross, mean over 2 heads")
    press("m")
    assert visit.caption().startswith("mean over 2 × 2 heads")
    press("ArrowLeft")
    assert visit.caption().startswith("mean over 2 × 2 heads")


@pytest.mark.page
def test_pixels_follow_the_weights(visit: Visit) -> None:
    visit.page.click("[aria-label='decoder.0.cross, head 1']")
    (none, quarter, most), (half, as_much, nothing) = visit.shades().tolist()
    assert most == pytest.approx([0x12, 0x38, 0x5C], abs=1)  # the last shade for the greatest weight
    assert none == nothing == [0xF4, 0xF7, 0xFA]  # paper for no weight
    assert half == as_much
    assert sum(most) < sum(half) < sum(quarter) < sum(none)


@pytest.mark.page
def test_the_slider_hides_weak_lines(visit: Visit) -> None:
    visit.page.click("[aria-label='decoder.1.cross, head 1']")
    assert visit.lines() == {(0, 0), (0, 1), (0, 2), (1, 2)}
    visit.page.focus("#least")
    for _ in range(20):
        visit.page.keyboard.press("ArrowRight")
    assert visit.page.text_content("#leastShown") == "0.25"
    assert visit.lines() == {(0, 1), (0, 2), (1, 2)}
    assert visit.caption().startswith("decoder.1.cross, head 1")  # the slider keeps its own arrows


@pytest.mark.page
def test_a_token_is_followed_pinned_and_let_go(visit: Visit) -> None:
    page = visit.page
    page.click("[aria-label='decoder.1.cross, head 1']")
    page.hover("#queries button >> nth=0")
    assert page.locator("#detail .bar").all_text_contents() == ["it0.500", "animal0.300", "the0.200"]
    page.hover("h1")
    assert page.locator("#detail .bar").count() == 0
    page.focus("#keys button >> nth=2")
    assert page.locator("#detail .bar").all_text_contents() == ["était1.000", "il0.500"]
    page.click("#queries button >> nth=1")
    page.hover("h1")
    assert page.locator("#detail p").text_content() == "était looks at"
    assert page.get_attribute("#queries button >> nth=1", "aria-pressed") == "true"
    page.keyboard.press("Escape")
    assert page.get_attribute("#queries button >> nth=1", "aria-pressed") == "false"
    box = page.locator("#matrix").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.25)
    assert page.locator("#detail p").text_content() == "il → animal: 0.300"


@pytest.mark.page
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1920, "dark"), (400, "light")])
def test_hostile_tokens_do_nothing_at_any_width(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    (tmp_path / "hostile.html").write_bytes(html(some(HOSTILE * 6, HOSTILE * 6, title=HOSTILE[0])))
    visit = Visit(browser, tmp_path / "hostile.html", width, scheme)
    visit.page.hover("#keys button >> nth=1")
    visit.page.click("#keys button >> nth=0")
    assert visit.page.evaluate("window.stolen") is None
    assert visit.page.locator("img").count() == 0
    assert visit.page.text_content("#queries button >> nth=0") == HOSTILE[0]
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.close()


@pytest.mark.page
def test_lines_left_out_are_counted(browser: Any, tmp_path: Path) -> None:
    even = Alignment("even", ("a",) * 40, ("b",) * 40, np.full((1, 1, 40, 40), 1 / 40), ("encoder.0.self",))
    (tmp_path / "even.html").write_bytes(html(even))
    visit = Visit(browser, tmp_path / "even.html")
    assert visit.lines() == set()
    visit.page.fill("#least", "0")
    assert len(visit.lines()) == 800
    assert "the 800 strongest of 1600 lines" in visit.caption()
    visit.close()


@pytest.mark.page
def test_the_policy_stops_what_the_page_did_not_bring(browser: Any, tmp_path: Path) -> None:
    """Were a token ever to become markup, it still could not run: the policy is tried with markup put in by hand."""
    page = html(known()).replace(b"<footer>", b"<footer><img src=x onerror='window.stolen=1'><script>window.stolen=1</script>")
    (tmp_path / "broken.html").write_bytes(page)
    visit = Visit(browser, tmp_path / "broken.html")
    assert visit.page.evaluate("window.stolen") is None
    assert any("Content Security Policy" in said for said in visit.said)
    visit.page.close()
