"""Who may ask: names that are not this machine's, other sites, bodies without end, and doors without a key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from regard.studio.app import create
from regard.studio.security import LOCAL, Guard, host_name
from tests.studio.tiny_session import TinyOpening, TinySession

KEY = "a long enough key & more"
FOREIGN = ("evil.example", "evil.example:8417", "127.0.0.1.evil.example", "0.0.0.0:1", "localhost.", "[::2]", "192.168.1.4:8417")
NO_HOSTS = (
    *("", "localhost, evil", "localhost:evil.com", "[::1]evil.com", "[::1", "localhost:", "localhost:99999", "user@localhost"),
    *("[::1]]", "localhost:8417:1", "[localhost]", "::1", "localhost/", "127.0.0.1 ", "[::1%25eth0]"),
)
ORIGINS = (
    *("http://evil.example", "null", "http://127.0.0.1:9", "https://localhost:8417.evil.example", "http://[", "http://[::1"),
    *("http://a]b", "", "http://", "//127.0.0.1:8417", "127.0.0.1:8417", "ftp://127.0.0.1:8417", "http://127.0.0.1:8417/"),
    *("http://x@127.0.0.1:8417", "http://127.0.0.1:8417, http://evil.example"),
)


def client(key: str | None = None, hosts: frozenset[str] = LOCAL) -> TestClient:
    app = create({"tiny": TinyOpening(TinySession())}, hosts, key)
    return TestClient(app, base_url="http://127.0.0.1:8417", raise_server_exceptions=False)


@pytest.mark.parametrize("host", ["127.0.0.1:8417", "localhost:8417", "localhost", "[::1]:8417", "LOCALHOST:1"])
def test_this_machine_is_let_in_by_its_names(host: str) -> None:
    assert client().get("/api/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("key", [None, KEY])
def test_a_name_that_only_points_here_is_not(host: str, key: str | None) -> None:
    answer = client(key).get("/", params={"key": KEY}, headers={"host": host})
    assert answer.status_code == 421
    assert "tiny" not in answer.text
    assert host.partition(":")[0] not in str(answer.headers)


@pytest.mark.parametrize("host", NO_HOSTS)
@pytest.mark.parametrize("key", [None, KEY])
def test_what_is_no_host_at_all_is_refused(host: str, key: str | None) -> None:
    answer = client(key).get("/api/runs", headers={"host": host})
    assert answer.status_code == 400
    assert "default-src" in answer.headers["content-security-policy"]


def test_the_address_at_which_a_request_arrives_is_this_machines() -> None:
    app = create({"tiny": TinyOpening(TinySession())})
    for arrived, host, status in (
        ("192.168.1.4", "192.168.1.4:80", 200),
        ("192.168.1.4", "192.168.1.5", 421),
        ("lab", "lab", 421),
    ):
        visitor = TestClient(app, base_url=f"http://{arrived}")
        assert visitor.get("/api/runs", headers={"host": host}).status_code == status
    lab = client(hosts=LOCAL | {"lab.example.org"})
    assert lab.get("/api/runs", headers={"host": "Lab.Example.org:9"}).status_code == 200


def test_no_answer_leads_to_the_host_of_a_request() -> None:
    for path in ("/api/runs/", "/static/main.js/", "/api/"):
        answer = client().get(path, follow_redirects=False)
        assert answer.status_code == 404, path
        assert "location" not in answer.headers


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("key", [None, KEY])
def test_another_site_cannot_ask(origin: str, key: str | None) -> None:
    answer = client(key).post("/api/pass", json={"run": "tiny", "text": "a b"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert "default-src" in answer.headers["content-security-policy"]


@given(
    st.sampled_from(["localhost:80", "[::1]:80", "127.0.0.1", "[::1]"]), st.integers(0, 13), st.text(max_size=3) | st.just(":1")
)
@settings(deadline=None)
def test_no_host_is_read_wrongly(host: str, at: int, junk: str) -> None:
    """What is accepted has an allowed name and a port, and nothing besides."""
    given = host[:at] + junk + host[at:]
    if (found := host_name(given)) in LOCAL:
        rest = given.lower().removeprefix(f"[{found}]").removeprefix(str(found))
        assert rest == "" or (rest[0] == ":" and rest[1:].isascii() and rest[1:].isdigit()) or "::" in given


def test_a_length_said_in_two_ways_is_refused() -> None:
    both = {"content-length": "2", "transfer-encoding": "chunked"}
    answer = client().post("/api/pass", content=b"{}", headers=both)
    assert answer.status_code == 400
    assert answer.headers["connection"] == "close"


def test_the_page_itself_can() -> None:
    headers = {"origin": "http://127.0.0.1:8417", "sec-fetch-site": "same-origin"}
    assert client().post("/api/pass", json={"run": "tiny", "text": "a b"}, headers=headers).status_code == 200
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
    assert client().post("/api/pass", content=large).status_code == 413

    def pieces() -> Iterator[bytes]:
        yield from (large[n : n + 9999] for n in range(0, len(large), 9999))

    assert client().post("/api/pass", content=pieces()).status_code in (400, 413)
    assert client().post("/api/pass", content=b"{}", headers={"content-length": "x"}).status_code in (400, 413)


def test_what_is_no_http_is_left_alone() -> None:
    import asyncio

    async def never(*_: object) -> None:
        raise AssertionError

    asyncio.run(Guard(never, LOCAL)({"type": "websocket"}, never, never))  # type: ignore[arg-type]
