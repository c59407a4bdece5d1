"""A hundred strings that would run if anything took them for markup, wherever a string can come from: none of them runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from regard.lens.subject import TokenRow
from tests.studio.showing import SCREENS, drawn
from tests.studio.tiny_session import WORDS, TinyOpening, TinySession, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.page

RUNS = "window.stolen=(window.stolen||0)+1"
SHAPES = (
    "<script>{}</script>",
    "</script><script>{}</script>",
    "<img src=x onerror={}>",
    '"><img src=x onerror={}>',
    "'><svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<iframe srcdoc='<script>parent.{}</script>'>",
    "<body onload={}>",
    "<details open ontoggle={}>",
    "<style>@import 'javascript:{}'</style>",
    "<a href=javascript:{} autofocus onfocus={}>x</a>",
    "javascript:{}",
    "data:text/html,<script>{}</script>",
    "</title><script>{}</script>",
    "</textarea><script>{}</script>",
    "</option></select><img src=x onerror={}>",
    "<!--><script>{}</script-->",
    "]]><script>{}</script>",
    "${{{}}}",
    "{{{{{}}}}}",
)
ODD = ("", "\u2028", "\u202e", "\\", "&lt;script&gt;", "%3Cscript%3E", "__proto__", "constructor", "toString", "hasOwnProperty")
ODD += ("\0", "'", '"', "`", "#/run?text=1", "../../etc/passwd", "<", ">", "&", "null")
HOSTILE = tuple(f"{n}{shape.format(RUNS, RUNS)}" for n in range(4) for shape in SHAPES) + tuple(f"{odd}{RUNS}" for odd in ODD)


@dataclass
class HostileDesk(TinySession):
    """Whatever it is asked, its tokens, its choices, its facts and its answer are hostile."""

    names: Sequence[str] = HOSTILE
    example: str = HOSTILE[0]
    facts: Mapping[str, str] = field(default_factory=lambda: dict(zip(HOSTILE[:8], HOSTILE[8:16])))

    def number(self, word: str) -> int:
        return 3 + len(word) % (WORDS - 3)

    def side(self, text: str) -> TokenRow:
        ids = tuple(3 + n % (WORDS - 3) for n in range(len(HOSTILE)))
        return TokenRow(HOSTILE, ids, tuple(range(len(HOSTILE))), (False,) * len(HOSTILE))

    def answer(self, text: str) -> str:
        return HOSTILE[2]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    session, folder = HostileDesk(), tmp_path_factory.mktemp("run")
    (folder / "metrics.jsonl").write_text('{"step": 1, "<img src=x onerror=window.stolen=1>": 1, "loss": 2}\n')
    with served({name: TinyOpening(session, folder) for name in HOSTILE}) as address:
        yield address


def test_there_are_a_hundred_of_them() -> None:
    assert len(set(HOSTILE)) == 100


def open_hostile(page: Page, address: str, screen: str, n: int) -> None:
    one = HOSTILE[n]
    state = {"run": one, "brun": HOSTILE[n + 1], "text": one, "target": HOSTILE[n + 2], "btext": HOSTILE[n + 3], "word": one}
    state |= {"sents": "\n".join(f"{one} {other}" for other in HOSTILE[:4]), "near": one, "ana": "\n".join(HOSTILE[12:15])}
    page.goto("about:blank")
    page.goto(f"{address}/#/{screen}?{urlencode(state)}")
    drawn(page, screen)


@pytest.fixture(scope="module")
def pages(browser: Browser) -> Iterator[tuple[Page, Page]]:
    """One to look at the studio, and one to open what was saved."""
    page, opened = (browser.new_page(viewport={"width": 1366, "height": 768}) for _ in range(2))
    page.set_default_timeout(300_000)
    yield page, opened
    page.close()
    opened.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_none_runs(pages: tuple[Page, Page], hostile: str, screen: str, tmp_path: Path) -> None:
    page, opened = pages
    dialogs: list[object] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog))
    if screen == "layers":  # explanations of a hundred tokens are refused, which shows another hostile sentence
        page.goto(f"{hostile}/#/layers?{urlencode({'run': HOSTILE[3], 'text': HOSTILE[4]})}")
        page.wait_for_selector(".lens-table td")
    else:
        open_hostile(page, hostile, screen, SCREENS.index(screen))
    assert page.evaluate("window.stolen") is None
    assert page.evaluate("document.querySelectorAll('script, iframe, style, base, object, embed, form').length") == 1
    assert page.evaluate("[...document.images].every((image) => image.src.startsWith(location.origin))")
    assert page.evaluate(
        "[...document.querySelectorAll('*')].every((e) => ![...e.attributes].some((a) => a.name.startsWith('on')))"
    )
    assert HOSTILE[SCREENS.index(screen)][:12] in page.evaluate("document.getElementById('run').value") or screen == "layers"
    page.keyboard.press("e")
    with page.expect_download() as saved:
        page.click("dialog [data-kind=html]")
    saved.value.save_as(tmp_path / "saved.html")
    opened.goto(f"file://{tmp_path}/saved.html")
    assert opened.evaluate("window.stolen") is None
    assert opened.evaluate("document.querySelectorAll('script:not([type=\"application/json\"]), iframe').length") == 0
    assert opened.evaluate("document.images.length") == 1
    assert dialogs == []


def test_they_are_all_there_to_be_read(pages: tuple[Page, Page], hostile: str) -> None:
    page, _ = pages
    open_hostile(page, hostile, "run", 0)
    options = page.evaluate("[...document.querySelectorAll('#run option')].map((option) => option.value)")
    assert [name for name in HOSTILE if name not in options] == []
