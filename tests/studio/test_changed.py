"""A run whose files change under the page: it is said, with what to do, and what was looked at before is never mixed with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from starlette.testclient import TestClient

from regard.core.errors import UserError
from regard.studio.app import create
from tests.studio.showing import open_view, until
from tests.studio.tiny_session import TinySession, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@dataclass
class Replaced:
    """A run that a test replaces: another model, and another version."""

    sessions: dict[str, TinySession] = field(default_factory=lambda: {"first": TinySession(), "second": other_desk()})
    now: str | None = "first"
    folder: Path | None = None
    steps: tuple[int, ...] = ()

    def version(self) -> str | None:
        return self.now

    def open(self, step: int | None) -> TinySession:
        if self.now is None:
            raise UserError("runs/tiny does not exist; give a run.")
        return self.sessions[self.now]


def other_desk() -> TinySession:
    made = TinySession(facts={"task": "translation", "weights": "of another run"})
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter.mul_(-1.5)
    return made


@pytest.fixture
def run() -> Replaced:
    return Replaced()


@pytest.fixture
def client(run: Replaced) -> TestClient:
    return TestClient(create({"tiny": run}), base_url="http://127.0.0.1")


def card(client: TestClient) -> Any:
    return client.get("/api/run", params={"run": "tiny"}).json()


def passed(client: TestClient) -> Any:
    return client.post("/api/pass", json={"run": "tiny", "text": "w5 w6 w7"}).json()


def changed(client: TestClient, version: str) -> Any:
    return client.get("/api/changed", params={"run": "tiny", "version": version}).json()["changed"]


def test_a_replaced_run_is_said_and_opened_when_the_page_is_loaded_again(run: Replaced, client: TestClient) -> None:
    first, before = card(client), passed(client)
    assert changed(client, first["version"]) is None
    run.now = "second"
    assert "Reload this page" in changed(client, first["version"])
    assert passed(client) == before  # until then it stays what the page shows
    second = card(client)
    assert second["facts"]["weights"] == "of another run"
    assert changed(client, second["version"]) is None
    assert "Reload this page" in changed(client, first["version"])  # for a page that was not loaded again
    after = passed(client)
    assert after["nll"] != before["nll"]
    assert after["id"] != before["id"]
    assert client.get("/api/heads", params={"id": before["id"]}).status_code == 410


def test_a_deleted_run_is_said(run: Replaced, client: TestClient) -> None:
    version = card(client)["version"]
    run.now = None
    assert "gone" in changed(client, version)
    assert "does not exist" in card(client)["cannot"]
    assert "does not exist" in passed(client)["cannot"]
    run.now = "first"
    assert changed(client, card(client)["version"]) is None


def test_what_changes_while_it_is_opened_is_noticed(run: Replaced, client: TestClient) -> None:
    opened = run.open

    def slowly(step: int | None) -> TinySession:
        found = opened(step)
        run.now = "second"
        return found

    run.open = slowly  # type: ignore[method-assign]
    assert "Reload" in changed(client, card(client)["version"])


def test_no_version_breaks_the_server(client: TestClient) -> None:
    for version in ("", "\0", "é", "x" * 64):
        assert changed(client, version) is not None
    assert client.get("/api/changed", params={"run": "tiny", "version": "x" * 65}).status_code == 422
    assert "no run" in client.get("/api/changed", params={"run": "other"}).json()["cannot"]


@pytest.fixture
def address(run: Replaced) -> Iterator[str]:
    with served({"tiny": run}) as found:  # type: ignore[dict-item]
        yield found


@pytest.mark.page
def test_the_page_says_it_and_reloads(browser: Browser, run: Replaced, address: str) -> None:
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.set_default_timeout(300_000)
    open_view(page, address, "head")
    assert page.is_hidden("#changed")
    run.now = "second"
    page.wait_for_selector("#changed:not([hidden])")
    assert "another run took its place" in page.inner_text("#changed")
    page.click("#changed button")
    until(page, "document.querySelector('#screens').textContent.includes('of another run')")
    assert page.is_hidden("#changed")
    run.now = None
    page.wait_for_selector("#changed:not([hidden])")
    assert "gone" in page.inner_text("#changed")
    page.close()
