"""What tests of the page do again and again: open a view, wait until it is drawn, and read pixels back as numbers."""

from __future__ import annotations

import json
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENS = ("run", "atlas", "head", "beam", "ablate", "arithmetic", "layers", "words", "compare")
TEXT = "w5 w6 w7 w8 w9"
USES = {"word": "w7", "sents": "w5 w7 w8\nw9 w7 w6\nw7 w7"}


def open_view(page: Page, studio: str, screen: str, **state: object) -> None:
    if page.url.startswith(f"{studio}/#/{screen}?"):  # another screen is turned to; the same one would stay as it is drawn
        page.goto("about:blank")
    extra = USES if screen == "words" else {}
    page.goto(f"{studio}/#/{screen}?{urlencode({'run': 'tiny', 'text': TEXT, **extra, **state})}")
    drawn(page, screen)


def drawn(page: Page, screen: str) -> None:
    page.wait_for_selector(f"#screen[data-ready={screen}]")
    until(page, "!document.querySelector('.wait').classList.contains('on')")


def until(page: Page, expression: str, seconds: float = 300) -> None:
    """Asked from outside: the page's policy forbids Playwright's own way, which evaluates a string inside."""
    end = monotonic() + seconds
    while not page.evaluate(expression):
        assert monotonic() < end, f"never came true: {expression}"
        page.wait_for_timeout(20)


READ = """([selector, kind]) => import('/static/colour.js').then(({ levels }) => {
  const canvas = document.querySelector(selector);
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  const map = levels(kind);
  const size = { wide: canvas.width, tall: canvas.height };
  return JSON.stringify({ ...size, data: Array.from(data), map: Array.from(map), ...canvas.dataset });
})"""


def numbers_of(page: Page, selector: str, rows: int, columns: int, kind: str = "weights") -> np.ndarray:
    """Each cell's middle pixel, as the level of the colour map that is nearest to it, as a number."""
    read: dict[str, Any] = json.loads(page.evaluate(READ, [selector, kind]))
    pixels = np.array(read["data"]).reshape(read["tall"], read["wide"], 4)[..., :3]
    levels = np.array(read["map"]).reshape(-1, 4)[:, :3]
    y, x = (((np.arange(n) + 0.5) * size / n).astype(int) for n, size in ((rows, read["tall"]), (columns, read["wide"])))
    cells = pixels[y][:, x]
    apart = np.abs(cells[:, :, None] - levels).sum(-1)
    assert apart.min(-1).max() == 0, "a cell has a colour that is not of the map"
    share = apart.argmin(-1) / 255
    most = float(read["most"])
    return (2 * share - 1) * most if kind == "signed" else share * most
