"""The one-file page: inert as a file; in a real Chromium it asks for nothing and follows keys, pointer, slider and switches."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.commands.lens import look
from regard.core.errors import UserError
from regard.lens.alignment import Alignment
from regard.lens.analyses import weights as merged
from regard.lens.analyses.weights import STEPS, Aggregation, aggregate, attention_page
from regard.lens.analyses.weights import alignment_page as html
from tests.lens.some_subjects import answers, subject, text_of

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
    rows = [row["text"] for row in json.loads(hostile.raw[1])["matrices"]["decoder.0.cross 000"]["rows"]]
    assert rows[:4] == list(HOSTILE[:4])
    assert rows[4:] == ["\\u2028\\u2029&lt;", "\\u202e", "]]>\\ud800"]


def matrices(page: bytes, key: str) -> dict[str, np.ndarray]:
    """By head, "mean" and "max": the weights that a page holds under this key."""
    found = json.loads(Parts(page).raw[1])["matrices"][key]
    numbers = found["scale"] * np.frombuffer(base64.b64decode(found["weights"]), dtype="<u2")
    return dict(zip(found["heads"], numbers.reshape(-1, len(found["rows"]), len(found["columns"]))))


def test_weights_travel_to_within_half_a_step_with_their_mean_and_their_largest() -> None:
    alignment = some(("a", "b"), ("x", "y", "z"))
    for layer, name in enumerate(alignment.layers):
        found = matrices(html(alignment), f"{name} 000")
        heads = [found[str(head)] for head in range(alignment.heads)]
        np.testing.assert_allclose(heads, alignment.weights[layer], atol=0.51 / STEPS)
        np.testing.assert_allclose(found["mean"], alignment.weights[layer].mean(0), atol=0.51 / STEPS)
        np.testing.assert_allclose(found["max"], alignment.weights[layer].max(0), atol=0.51 / STEPS)
    np.testing.assert_allclose(matrices(html(alignment), "cross 000")["mean"], alignment.mean(), atol=0.51 / STEPS)


@pytest.mark.parametrize("name", ["translator", "RobertaForMaskedLM"])
def test_every_setting_of_the_switches_is_what_lens_aggregates(name: str) -> None:
    found = subject(name)
    page, seen = attention_page(found), found.record()
    for words, hide, values in product((False, True), repeat=3):
        how = Aggregation(words=words, specials="hide" if hide else "keep", values=values)
        for attention in seen:
            held = matrices(page, f"{attention} {words:d}{hide:d}{values:d}")
            expected = aggregate(found, seen, [attention], None, how).weights_HQW
            atol = 0.51 / STEPS * max(1.0, float(expected.max()))
            np.testing.assert_allclose([held[str(head)] for head in range(len(expected))], expected, atol=atol)
            np.testing.assert_allclose(held["mean"], expected.mean(0), atol=atol)


def test_lens_writes_the_whole_pass_as_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.commands.lens.open_run", lambda *_: answers("translator"))
    list(look("run", text_of("translator"), "encoder", tmp_path / "a.html", None))
    data = json.loads(Parts((tmp_path / "a.html").read_bytes()).raw[1])
    assert data["switches"] == ["merge", "hide", "values"]
    assert data["first"] == "encoder.0.self"
    assert {"encoder.0.self 000", "decoder.0.self 111", "decoder.0.cross 010"} <= data["matrices"].keys()


def test_a_page_without_room_leaves_switches_out_and_a_larger_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = subject("translator")
    monkeypatch.setattr(merged, "ROOM", 2000)
    assert json.loads(Parts(attention_page(found)).raw[1])["switches"] == []
    monkeypatch.setattr(merged, "MOST", 100)
    with pytest.raises(UserError, match="--show weights --layer N --head N"):
        attention_page(found)


def test_six_layers_of_eight_heads_over_sixty_tokens_stay_small() -> None:
    page = html(some(("▁fatigué",) * 60, ("▁tired",) * 60, layers=6, heads=8))
    assert len(page) < 850_000
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
        self.page.wait_for_selector("#screen[data-ready='1']")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.page.wait_for_selector("#screen[data-ready='1']")

    def lines(self) -> int:
        return int(self.page.locator("svg.lines path").count())

    def table(self) -> list[str]:
        """The heading of the ranked table, and its rows without their numbers."""
        heading = str(self.page.text_content(".ranked h2"))
        read = "rows => rows.map(row => [...row.cells].slice(1).map(cell => cell.textContent))"
        rows = self.page.locator(".ranked tr").evaluate_all(read)
        return [heading, *(" ".join(filter(None, row)) for row in rows)]

    def shades(self, rows: int, columns: int) -> np.ndarray:
        """The pixel in the middle of every cell of the matrix, (rows, columns, RGB)."""
        width, height, pixels = self.page.evaluate(
            """() => { const canvas = document.querySelector('canvas.cells'), {width, height} = canvas;
            const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            return [width, height, [...copy.getImageData(0, 0, width, height).data]] }"""
        )
        image = np.array(pixels).reshape(height, width, 4)
        return image[height // rows // 2 :: height // rows, width // columns // 2 :: width // columns, :3]

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
def test_it_opens_on_the_mean_and_keys_move_through_layers_and_heads(visit: Visit) -> None:
    assert visit.page.input_value("[data-key=at]") == "cross"
    assert "Mean of 4 heads" in visit.page.inner_text("#screen")
    assert visit.table()[1] == "était → animal 0.625"
    visit.press("]")
    assert visit.page.input_value("[data-key=at]") == "decoder.0.cross"
    assert "Mean of 2 heads" in visit.page.inner_text("#screen")
    visit.press(".")
    assert visit.table() == ["Strongest of all", "il → the 1.000", "était → animal 1.000"]
    assert visit.lines() == 2
    visit.press("]")
    assert visit.table() == ["Strongest of all", "il → animal 1.000", "était → animal 1.000"]
    visit.press(".")
    assert visit.table()[1] == "était → it 1.000"
    visit.press("m")
    assert visit.page.input_value("[data-key=at]") == "cross"


@pytest.mark.page
def test_pixels_follow_the_weights(visit: Visit) -> None:
    visit.press("]", ".", ".")  # decoder.0.cross, head 1
    (none, quarter, most), (half, as_much, nothing) = visit.shades(2, 3).tolist()
    assert none == nothing
    assert half == as_much
    assert sum(most) < sum(half) < sum(quarter) < sum(none)


@pytest.mark.page
def test_the_slider_hides_weak_lines(visit: Visit) -> None:
    visit.press("]", "]", ".", ".")  # decoder.1.cross, head 1
    assert visit.lines() == 4
    visit.page.fill("[data-key=least]", "0.26")
    assert visit.lines() == 3


@pytest.mark.page
def test_a_token_is_followed_pinned_and_let_go(visit: Visit) -> None:
    page = visit.page
    visit.press("]", "]", ".", ".")
    page.hover("svg.lines text.pick >> nth=0")
    assert visit.table() == ["“il” attends to", "it 0.500", "animal 0.300", "the 0.200"]
    page.hover("h1")
    assert visit.table()[0] == "Strongest of all"
    page.hover("svg.lines text.pick >> nth=4")
    assert visit.table() == ["“it” is attended to by", "était 1.000", "il 0.500"]
    page.click("svg.lines text.pick >> nth=1")
    page.hover("h1")
    assert visit.table()[0] == "“était” attends to"
    visit.press("Escape")
    assert visit.table()[0] == "Strongest of all"
    box = page.locator("canvas.cells").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.25)
    assert page.text_content(".pointed") == "il → animal  0.300"


@pytest.mark.page
def test_switches_merge_hide_and_weigh(browser: Any, tmp_path: Path) -> None:
    found = subject("RobertaForMaskedLM")
    (tmp_path / "page.html").write_bytes(attention_page(found))
    visit = Visit(browser, tmp_path / "page.html")
    visit.press("]", "s", "h")
    labels = visit.page.locator(".matrix svg text:not(.within)").all_text_contents()
    words = ["the", "animal", "did", "not", "cross", "the", "street", "because", "it", "was", "TOO", "tired", "."]
    assert labels == words * 2
    assert "Sub-words are merged" in visit.page.inner_text("#screen")
    visit.press("v")
    assert "weight times value" in visit.page.inner_text("#screen")
    visit.press("t")
    assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"
    visit.close()


@pytest.mark.page
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1920, "dark"), (400, "light")])
def test_hostile_tokens_do_nothing_at_any_width(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    (tmp_path / "hostile.html").write_bytes(html(some(HOSTILE * 6, HOSTILE * 6, title=HOSTILE[0])))
    visit = Visit(browser, tmp_path / "hostile.html", width, scheme)
    visit.page.hover("svg.lines text.pick >> nth=1")
    visit.page.click("svg.lines text.pick >> nth=0")
    assert visit.page.evaluate("window.stolen") is None
    assert visit.page.locator("img").count() == 0
    assert visit.page.text_content("h1") == HOSTILE[0]
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.close()


@pytest.mark.page
def test_the_policy_stops_what_the_page_did_not_bring(browser: Any, tmp_path: Path) -> None:
    """Were a token ever to become markup, it still could not run: the policy is tried with markup put in by hand."""
    page = html(known()).replace(
        b"<noscript>", b"<img src=x onerror='window.stolen=1'><script>window.stolen=1</script><noscript>"
    )
    (tmp_path / "broken.html").write_bytes(page)
    visit = Visit(browser, tmp_path / "broken.html")
    assert visit.page.evaluate("window.stolen") is None
    assert any("Content Security Policy" in said for said in visit.said)
    visit.page.close()
