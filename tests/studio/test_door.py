"""A studio with a key: who is let in, what a guesser meets, and where the key comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from regard.core.errors import UserError
from regard.studio.app import create
from regard.studio.security import COOKIE, LOCAL, SHORTEST_KEY, Attempts, Door
from regard.studio.server import VARIABLE, allowed_hosts, find_key, make_key, readable_by_others, url
from tests.studio.test_security import KEY, client
from tests.studio.tiny_session import TinyOpening, TinySession, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FORM = {"content-type": "application/x-www-form-urlencoded"}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_key_is_asked_for_once_and_kept_where_no_script_reads() -> None:
    visitor = client(KEY)
    assert visitor.get("/").status_code == 401
    assert visitor.get("/api/runs", params={"key": KEY}).status_code == 401
    entered = visitor.get("/", params={"key": KEY}, follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "enough" not in cookie
    assert visitor.get("/api/runs").json() == [{"name": "tiny", "open": False}]


@pytest.mark.parametrize("cookie", ["another", KEY, "", '"'])
def test_another_cookie_is_none(cookie: str) -> None:
    assert client(KEY).get("/api/runs", headers={"cookie": f"{COOKIE}={cookie}"}).status_code == 401


def test_the_key_can_be_typed_into_a_form_and_never_shows_in_an_address() -> None:
    visitor = client(KEY)
    page = visitor.get("/")
    assert '<form method="post" action="/enter">' in page.text
    assert "form-action 'self'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "same-origin"
    assert visitor.post("/enter", content="key=wrong+key", headers=FORM).status_code == 401
    entered = client(KEY).post("/enter", content="key=a+long+enough+key+%26+more", headers=FORM, follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert client(KEY).post("/enter", content="key=" + "a" * 9000, headers=FORM).status_code == 401
    assert (
        client(KEY).post("/enter", content="key=a+long+enough+key", headers={**FORM, "origin": "http://evil"}).status_code == 403
    )


def test_wrong_keys_are_answered_later_and_later_and_who_is_in_stays_in() -> None:
    app = create({"tiny": TinyOpening(TinySession())}, LOCAL, KEY)
    assert app.door is not None
    clock = app.door.attempts.clock = Clock()
    visitor, guesser = (TestClient(app, base_url="http://127.0.0.1") for _ in range(2))
    visitor.get("/", params={"key": KEY})
    waits = []
    for guess in range(12):
        answer = guesser.get("/", params={"key": f"wrong key {guess}"})
        assert answer.status_code == 401
        waits.append(int(answer.headers["retry-after"]))
        too_soon = guesser.get("/", params={"key": KEY}, follow_redirects=False)
        assert too_soon.status_code == 429, "the right key would tell a guesser which of many it was"
        assert "try again in" in too_soon.text
        clock.now += waits[-1] + 0.001
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert visitor.get("/api/runs").status_code == 200
    assert guesser.get("/", params={"key": KEY}, follow_redirects=False).status_code == 303
    guesser.cookies.clear()
    assert guesser.get("/", params={"key": "wrong again"}).headers["retry-after"] == "1"


def test_clients_are_told_apart_and_few_are_remembered() -> None:
    clock = Clock()
    attempts = Attempts(clock, most=3)
    for address in ("10.0.0.1", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"):
        attempts.wrong(address)
    assert attempts.wait("10.0.0.1") == 4.0
    assert attempts.wait("2001:db8::ffff:2") == 1.0, "the same network"
    assert attempts.wait("2001:db8:0:1::1") == attempts.wait("10.0.0.2") == 0.0
    for last in range(9):
        attempts.wrong(f"10.1.0.{last}")
    assert len(attempts._tried) == 3
    assert attempts.wait("10.0.0.1") == 0.0
    clock.now += 3601
    assert attempts.wait("10.1.0.8") == 0.0
    attempts.wrong("10.1.0.8")
    assert attempts.wait("10.1.0.8") == 1.0


def test_tokens_are_drawn_anew() -> None:
    assert Door(KEY).token != Door(KEY).token
    assert len(make_key()) >= 2 * SHORTEST_KEY
    assert make_key() != make_key()


def test_the_key_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "studio.key"
    file.write_text(f"{KEY}\n")
    assert find_key(file, {VARIABLE: "another long key"}) == KEY
    assert find_key(None, {VARIABLE: "another long key"}) == "another long key"
    assert find_key(None, {}) is find_key(None, {VARIABLE: ""}) is None
    for mode, said in ((0o600, False), (0o640, True), (0o604, True)):
        file.chmod(mode)
        assert readable_by_others(file) is said
    for text, said in (("short", "at least 12"), ("two lines\nof a key", "line break"), ("a" * 9000, "more than 4 KiB")):
        file.write_text(text)
        with pytest.raises(UserError, match=said):
            find_key(file, {})
    with pytest.raises(UserError, match="REGARD_STUDIO_KEY has 5"):
        find_key(None, {VARIABLE: "short"})
    with pytest.raises(UserError, match="does not exist"):
        find_key(tmp_path / "none", {})


def test_it_may_be_called_by_its_own_names_and_those_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Lab7.example.org")
    assert allowed_hosts("127.0.0.1", 8417) == allowed_hosts("localhost", 0) == LOCAL
    own = {"lab7.example.org", "lab7", "lab7.local"}
    assert allowed_hosts("0.0.0.0", 8417) == allowed_hosts("::", 8417) == LOCAL | own
    assert allowed_hosts("192.168.1.4", 8417, ["Proxy.example"]) == LOCAL | own | {"192.168.1.4", "proxy.example"}
    assert allowed_hosts("127.0.0.1", 8417, ["[2001:DB8::0]"]) == LOCAL | {"2001:db8::"}
    assert url("0.0.0.0", 80) == "http://Lab7.example.org:80/"
    assert url("::1", 80) == "http://[::1]:80/"
    for name in ("http://lab", "lab:80", "", "a b", "*"):
        with pytest.raises(UserError, match="--allow-host"):
            allowed_hosts("127.0.0.1", 8417, [name])
    with pytest.raises(UserError, match="65535"):
        allowed_hosts("127.0.0.1", 70_000)


@pytest.mark.page
def test_a_browser_is_let_in_by_the_form(browser: Browser) -> None:
    with served({"tiny": TinyOpening(TinySession())}, key=KEY) as address:
        page = browser.new_page()
        page.set_default_timeout(300_000)
        page.goto(f"{address}/#/run?run=tiny&text=w5+w6")
        page.fill("input", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#screen[data-ready=run]")
        assert "key" not in page.url
        page.close()
