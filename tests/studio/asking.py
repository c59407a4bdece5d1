"""Questions to the server as nobody should ask them: for the test that none breaks it, and the benchmark that asks thousands."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from starlette.testclient import TestClient

from regard.studio.app import create
from tests.studio.tiny_session import TinyOpening, TinySession

TEXTS = st.text(max_size=30) | st.sampled_from(["w5 w6 w7", "w5", "", " ", "\u2028", "a" * 2000, "<b>", "w5 " * 300])
NAMES = st.sampled_from(
    ["encoder.0.self", "decoder.1.cross", "decoder.0.self", "encoder.9.self", "", "../..", "decoder", "cross"]
) | st.text(max_size=9)
SMALL = st.integers(-2, 9) | st.sampled_from([10**7, 10**18, -1])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
RUNS = st.sampled_from(["tiny", "tiny", "tiny", "none", "../tiny"]) | st.text(max_size=5)
GET = [
    "runs",
    "run",
    "metrics",
    "weights",
    "overview",
    "thumbnails",
    "heads",
    "tile",
    "arithmetic",
    "terms",
    "ablations",
    "kept",
]
GET += [
    "images",
    "image",
    "image-thumbnails",
    "document",
    "explain",
    "roles",
    "compare",
    "near",
    "positions",
    "openapi.json",
    "nothing",
]
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "run": RUNS,
    "step": SMALL,
    "name": NAMES,
    "head": SMALL,
    "heads": st.sampled_from(["0", "0,1", "1,1,1", "7", "", "-1", "0,"]) | st.text(max_size=5),
    "rows": st.sampled_from(["0:2", "1:3", "3:1", "0:99", "9:9", "a:b", ""]),
    "columns": st.sampled_from(["0:2", "1:3", "3:1", "0:99", "-1:2"]),
    "size": SMALL,
    "query": SMALL,
    "key": SMALL,
    "vector": st.sampled_from(["q", "k", "v", "dot", "context", "share", "out", "z", ""]),
    "index": SMALL,
    "show": st.sampled_from(["logits", "rollout", "gradient", "flow", ""]),
    "word": TEXTS,
    "first": SMALL,
    "count": SMALL,
    "around": NAMES,
    "words": st.sampled_from(["1", "0", "x"]),
    "values": st.sampled_from(["1", "0"]),
    "specials": st.sampled_from(["keep", "hide", "renormalise", "drop"]),
    "join": st.sampled_from(["none", "mean", "max", "sum"]),
}
POST: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "pass": {"run": RUNS, "text": TEXTS, "target": TEXTS | st.none(), "step": SMALL},
    "answer": {"run": RUNS, "text": TEXTS},
    "ablate": {"off": st.dictionaries(NAMES, st.lists(SMALL, max_size=3), max_size=3)},
    "beam": {"run": RUNS, "text": TEXTS, "beam": SMALL, "forced": st.lists(SMALL, max_size=3), "word": TEXTS},
    "alignment": {"run": RUNS, "text": TEXTS, "tokens": st.lists(SMALL, max_size=3)},
    "uses": {"run": RUNS, "word": TEXTS, "sentences": st.lists(TEXTS, max_size=3)},
    "analogy": {"run": RUNS, "minus": TEXTS, "base": TEXTS, "plus": TEXTS},
}


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, str, dict[str, Any], bytes | None]:
    """Method, path, query and body; mostly of the right shape, with anything at all now and then."""
    if draw(st.booleans()):
        path = draw(st.sampled_from(GET))
        given = draw(st.fixed_dictionaries({}, optional=FIELDS))
        return "GET", path, given | {"id": draw(st.sampled_from(["ID", "ID", "ID", "0" * 20, "x", ""])), "other": "ID"}, None
    path = draw(st.sampled_from(list(POST)))
    body = draw(st.fixed_dictionaries({}, optional=POST[path]) | ANY)
    raw = draw(st.just(json.dumps(body).encode()) | st.binary(max_size=40) | st.just(json.dumps(body).encode()[:-1]))
    return "POST", path, {"id": "ID"}, raw


class Asker:
    """A server and a client without a network between them, with one look that questions may be about."""

    def __init__(self) -> None:
        app = create({"tiny": TinyOpening(TinySession())})
        self.client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
        self.run_pass()

    def run_pass(self) -> str:
        answer = self.client.post("/api/pass", json={"run": "tiny", "text": "w5 w6 w7"})
        return str(answer.json()["id"])

    def ask(self, method: str, path: str, given: dict[str, Any], body: bytes | None) -> int:
        """The status of the answer."""
        id = self.run_pass()
        query = {key: id if value == "ID" else value for key, value in given.items()}
        headers = {"content-type": "application/json"} if body is not None else {}
        try:
            answer = self.client.request(method, f"/api/{path}", params=query, content=body, headers=headers)
        except UnicodeEncodeError:  # half a character cannot even be sent
            return 0
        if answer.status_code >= 400:
            assert answer.json()["error"].strip()
        return answer.status_code
