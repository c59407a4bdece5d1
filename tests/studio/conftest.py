"""One Chromium and one server for the tests of a file, and a page that fails a test whenever it complains or looks elsewhere.

Not for the whole session: while Playwright is there, so is its event loop, and no other test could have one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.lens.test_picture_page import CHROMIUM, QUIET
from tests.studio.tiny_session import TinyOpening, TinySession, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two runs: one that trained, as its metrics say, and another with snapshots."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "metrics.jsonl").write_text("".join(f'{{"step": {n}, "loss": {9 / (n + 1)}}}\n' for n in range(9)))
    runs = {"tiny": TinyOpening(TinySession(), folder), "other": TinyOpening(TinySession(), folder, (10, 20))}
    with served(runs) as address:
        yield address


@pytest.fixture
def complaints() -> list[str]:
    """Of the page; a test that makes a mistake on purpose takes out what it expects."""
    return []


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One for the tests of a file: to make it takes longer than most of them."""
    context = browser.new_context(accept_downloads=True)
    made = context.new_page()
    made.set_default_timeout(300_000)
    yield made
    context.close()


@pytest.fixture
def page(tab: Page, studio: str, complaints: list[str]) -> Iterator[Page]:
    tab.goto("about:blank")
    tab.set_viewport_size({"width": 1366, "height": 768})
    tab.emulate_media(color_scheme="light")

    def heard(message: ConsoleMessage) -> None:
        complaints.append(f"{message.type}: {message.text} {message.location['url']}")

    def asked(request: Request) -> None:
        if not request.url.startswith((studio, "blob:", "data:")):
            complaints.append(f"asked for {request.url}")

    def broke(error: object) -> None:
        complaints.append(str(error))

    listeners: dict[Any, Callable[..., None]] = {"console": heard, "pageerror": broke, "request": asked}
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield tab
    if tab.url.startswith(studio):
        tab.evaluate("localStorage.clear(), sessionStorage.clear()")
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    assert complaints == []
