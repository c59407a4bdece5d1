"""Who may ask: this machine alone without keys, whoever has a key with them, and no page of another site."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.serve.guard import Guard
from regard.serve.keys import Keys
from tests.serve.served import client_of, key_file, model_of
from tests.serve.tiny_models import opened

FIRST, SECOND = "first-key-0123456789", "second-key-0123456789"
ASK = {"prompt": "a b"}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_with_keys_every_request_but_health_needs_one(tmp_path: Path) -> None:
    model = model_of("gpt", opened("gpt"))
    with client_of(model, keys=Keys.read(key_file(tmp_path, "# ours", FIRST, "", SECOND))) as client:
        for path in ("/v1/models", "/metrics", "/openapi.json", "/v1/nothing"):
            assert client.get(path).status_code == 401, path
        assert client.get("/health").status_code == client.get("/ready").status_code == 200
        wrong = client.post("/v1/completions", json=ASK, headers=bearer("first-key-0123456788"))
        assert wrong.status_code == 401
        assert wrong.headers["www-authenticate"] == "Bearer"
        assert wrong.json()["error"] | {"message": ""} == {
            "message": "",
            "type": "authentication_error",
            "param": None,
            "code": "invalid_api_key",
        }
        assert client.post("/v1/completions", json=ASK, headers=bearer(FIRST)).status_code == 200
        assert client.post("/v1/completions", json=ASK, headers={"authorization": f"bearer  {SECOND} "}).status_code == 200
        for header in (FIRST, f"Basic {FIRST}", f"Bearer {FIRST},{SECOND}", "Bearer", "Bearer \xff"):
            given = {"authorization": header.encode("latin-1")}
            assert client.post("/v1/completions", json=ASK, headers=given).status_code == 401, header
    assert model.engine.keys == ["1", "2"]  # the engine is fair between keys, and knows none of them


def test_all_keys_are_compared_whichever_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    keys, compared = Keys.read(key_file(tmp_path, FIRST, SECOND)), list[tuple[int, int]]()
    plain = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return plain(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    assert [keys.number(f"Bearer {key}") for key in (FIRST, SECOND, "x")] == [1, 2, None]
    assert compared == [(32, 32)] * 6


@pytest.mark.parametrize(
    ("lines", "said"),
    [([], "has no key"), (["# a", " "], "has no key"), (["short"], "5 characters"), (["a" * 20 + "\x07"], "control")],
)
def test_a_key_file_that_guards_nothing_is_refused(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Keys.read(key_file(tmp_path, *lines))


def test_without_keys_only_this_machine_is_answered() -> None:
    with client_of(model_of("gpt", opened("gpt"))) as client:
        for host in ("localhost", "127.0.0.1:8418", "[::1]:8418"):
            assert client.get("/v1/models", headers={"host": host}).status_code == 200, host
        for host in ("evil.example", "127.0.0.1.evil.example", "0.0.0.0", "a b", "localhost:99999"):
            assert client.get("/v1/models", headers={"host": host}).status_code in (400, 421), host
        own = {"host": "localhost:8418", "origin": "http://localhost:8418"}
        assert client.get("/v1/models", headers=own).status_code == 200
        for origin in ("http://evil.example", "null", "http://localhost:9999"):
            assert client.get("/v1/models", headers=own | {"origin": origin}).status_code == 403, origin
        answer = client.get("/v1/models", headers=own)
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_two_lengths_are_refused() -> None:
    with client_of(model_of("gpt", opened("gpt"))) as client:
        both = {"content-length": "3", "transfer-encoding": "chunked"}
        assert client.post("/v1/completions", headers=both).status_code == 400


def test_a_guard_leaves_other_protocols_to_the_application() -> None:
    import asyncio

    seen = []

    async def app(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        seen.append(scope["type"])

    asyncio.run(Guard(app, None, 10)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
