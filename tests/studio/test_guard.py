"""Who may ask: names that are not this machine's, other sites, bodies without end, and doors without a key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from regard.errors import UserError
from regard.studio.app import create
from regard.studio.guard import COOKIE, Guard, check_address
from tests.studio.tiny_desk import TinyDesk, TinyOpening

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
KEY = "a long enough key & more"


def client(key: str | None = None) -> TestClient:
    app = create({"tiny": TinyOpening(TinyDesk())}, None if key else LOCAL, key)
    return TestClient(app, base_url="http://127.0.0.1:8417", raise_server_exceptions=False)


@pytest.mark.parametrize("host", ["127.0.0.1:8417", "localhost:8417", "localhost", "[::1]:8417", "LOCALHOST:1"])
def test_this_machine_is_let_in_by_its_names(host: str) -> None:
    assert client().get("/api/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8417", "127.0.0.1.evil.example", "", "localhost, evil", "0.0.0.0:1"]
)
def test_a_name_that_only_points_here_is_not(host: str) -> None:
    answer = client().get("/api/runs", headers={"host": host})
    assert answer.status_code == 421
    assert "tiny" not in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9", "https://localhost:8417.evil.example"])
def test_another_site_cannot_ask(origin: str) -> None:
    answer = client().post("/api/look", json={"run": "tiny", "text": "a b"}, headers={"origin": origin})
    assert answer.status_code == 403


def test_the_page_itself_can() -> None:
    headers = {"origin": "http://127.0.0.1:8417", "sec-fetch-site": "same-origin"}
    assert client().post("/api/look", json={"run": "tiny", "text": "a b"}, headers=headers).status_code == 200
    assert client().get("/api/runs", headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_every_answer_carries_the_policy() -> None:
    for path in ("/", "/static/main.js", "/api/runs", "/nothing", "/api/weights"):
        answer = client().get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"


def test_no_path_leads_out_of_the_page() -> None:
    for path in ("/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/%2e%2e/cli.py", "/app.py", "/static//etc/passwd"):
        assert client().get(path).status_code == 404, path


def test_bodies_are_bounded_whether_they_say_so_or_not() -> None:
    large = b'{"run": "tiny", "text": "' + b"a" * 300_000 + b'"}'
    assert client().post("/api/look", content=large).status_code == 413

    def pieces() -> Iterator[bytes]:
        yield from (large[n : n + 9999] for n in range(0, len(large), 9999))

    assert client().post("/api/look", content=pieces()).status_code in (400, 413)
    assert client().post("/api/look", content=b"{}", headers={"content-length": "x"}).status_code in (400, 413)


def test_a_key_is_asked_for_once_and_kept_where_no_script_reads() -> None:
    visitor = client(KEY)
    assert visitor.get("/").status_code == 401
    assert visitor.get("/?key=wrong").status_code == 401
    assert visitor.get("/api/runs", params={"key": KEY}).status_code == 401
    entered = visitor.get("/", params={"key": KEY}, follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert visitor.get("/api/runs").json() == [{"name": "tiny", "open": False}]
    visitor.cookies.set(COOKIE, "another")
    assert client(KEY).get("/api/runs", headers={"cookie": f"{COOKIE}=another"}).status_code == 401


def test_a_public_address_needs_a_key_and_a_good_one() -> None:
    assert check_address("127.0.0.1", 8417, None) == LOCAL
    assert check_address("localhost", 0, None) == LOCAL
    assert check_address("0.0.0.0", 8417, KEY) is None
    for host in ("0.0.0.0", "192.168.1.4", "::", "example.org"):
        with pytest.raises(UserError, match="--key"):
            check_address(host, 8417, None)
    with pytest.raises(UserError, match="at least 12"):
        check_address("0.0.0.0", 8417, "short")
    with pytest.raises(UserError, match="65535"):
        check_address("127.0.0.1", 70_000, None)


def test_what_is_no_http_is_left_alone() -> None:
    import asyncio

    async def never(*_: object) -> None:
        raise AssertionError

    asyncio.run(Guard(never, LOCAL)({"type": "websocket"}, never, never))  # type: ignore[arg-type]
