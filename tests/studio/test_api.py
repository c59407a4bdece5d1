"""What the page asks: right questions are answered with the model's numbers, wrong ones with a sentence, none with a crash."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from regard.lens.analyses.weights import Aggregation, aggregate, part_of
from regard.studio.app import create
from regard.studio.worker import Full, Work
from tests.studio.asking import Asker, questions
from tests.studio.tiny_session import TinyOpening, TinySession, tiny_pass

ASKER = Asker()
MET: Counter[int] = Counter()


@given(questions())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_question_breaks_the_server(question: tuple[str, str, dict[str, Any], bytes | None]) -> None:
    status = ASKER.ask(*question)
    MET[status // 100] += 1
    assert status < 500, question


def test_both_kinds_of_answers_were_met() -> None:
    """Or the test above would have tried nothing."""
    if sum(MET.values()) >= 300:
        assert MET[2] >= 30
        assert MET[4] >= 30


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create({"tiny": TinyOpening(TinySession())}), base_url="http://127.0.0.1")


@pytest.fixture(scope="module")
def id(client: TestClient) -> str:
    return str(client.post("/api/pass", json={"run": "tiny", "text": "w5 w6 w7 w8 w9"}).json()["id"])


def array(client: TestClient, path: str, **given: object) -> np.ndarray:
    answer = client.get(f"/api/{path}", params=given)
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, answer.headers["x-type"]).reshape([int(n) for n in answer.headers["x-shape"].split(",")])


def weights(client: TestClient, **given: object) -> np.ndarray:
    """weights_HQW that /api/weights serves."""
    found = client.get("/api/weights", params=given).json()
    numbers = np.frombuffer(base64.b64decode(found["weights"]), "<f4")
    return numbers.reshape(-1, len(found["rows"]), len(found["columns"]))


def test_weights_come_as_they_are(client: TestClient, id: str) -> None:
    seen = tiny_pass().attention("decoder.1.cross").weights()[0].numpy()
    np.testing.assert_allclose(weights(client, id=id, name="decoder.1.cross", heads="0,1"), seen, atol=1e-6)
    part = array(client, "tile", id=id, name="decoder.1.cross", head=1, rows="2:4", columns="1:5")
    np.testing.assert_allclose(part, seen[1, 2:4, 1:5], atol=1e-6)
    picture = array(client, "overview", id=id, name="decoder.1.cross", head=1, size=3)
    np.testing.assert_allclose(picture[0, 0] / 255, seen[1, :2, :2].max(), atol=1 / 255)


def test_aggregated_weights_are_those_of_lens(client: TestClient, id: str) -> None:
    model_pass = tiny_pass()
    for name, how in [
        ("decoder.1.cross", {"words": True, "specials": "hide", "values": True}),
        ("decoder.1.cross", {"specials": "renormalise", "join": "max"}),
        ("cross", {"join": "mean"}),
        ("decoder", {"join": "mean", "specials": "hide"}),
    ]:
        names = [one for one in model_pass.seen if part_of(one) == name] or [name]
        expected = aggregate(model_pass.subject, model_pass.seen, names, None, Aggregation(**how))  # type: ignore[arg-type]
        np.testing.assert_allclose(weights(client, id=id, name=name, **how), expected.weights_HQW, atol=1e-6)
        found = client.get("/api/weights", params={"id": id, "name": name, **how}).json()
        assert [row["text"] for row in found["rows"]] == [row.text for row in expected.rows]
    seen = [model_pass.attention(f"decoder.{n}.cross").weights()[0].numpy() for n in range(2)]
    np.testing.assert_allclose(weights(client, id=id, name="cross", join="mean")[0], np.mean(seen, (0, 1)), atol=1e-6)
    refused = client.get("/api/weights", params={"id": id, "name": "cross"}).json()["cannot"]
    assert "give join=mean or join=max" in refused


def test_a_look_that_is_gone_is_told_so(client: TestClient) -> None:
    answer = client.get("/api/heads", params={"id": "0" * 20})
    assert answer.status_code == 410
    assert "again" in answer.json()["error"]


def test_heads_switched_off_change_what_is_said(client: TestClient, id: str) -> None:
    before = client.post("/api/pass", json={"run": "tiny", "text": "w5 w6 w7 w8 w9"}).json()
    none = client.post("/api/ablate", params={"id": id}, json={"off": {}}).json()
    assert none["nll"] == pytest.approx(before["nll"], abs=1e-6)
    grid = client.get("/api/ablations", params={"id": id}).json()["rise"]
    for name, head in (("decoder.0.self", 1), ("encoder.1.self", 0)):
        one = client.post("/api/ablate", params={"id": id}, json={"off": {name: [head]}}).json()
        assert one["nll"] - before["nll"] == pytest.approx(grid[name][head], abs=1e-4)
    every = {attention["name"]: list(range(attention["heads"])) for attention in before["attentions"]}
    all_off = client.post("/api/ablate", params={"id": id}, json={"off": every}).json()["nll"]
    points = client.get("/api/kept", params={"id": id}).json()["points"]
    assert points[0][0] == 12
    assert points[0][1] == pytest.approx(before["nll"], abs=1e-4)
    assert points[-1] == [0, pytest.approx(all_off, abs=1e-4)]


def test_the_same_look_is_not_apart_and_another_is(client: TestClient, id: str) -> None:
    other = client.post("/api/pass", json={"run": "tiny", "text": "w9 w6 w7 w8 w5"}).json()["id"]
    shorter = client.post("/api/pass", json={"run": "tiny", "text": "w9 w6"}).json()["id"]
    same = client.get("/api/compare", params={"id": id, "other": id}).json()
    assert {value for values in same["apart"].values() for value in values} == {0}
    apart = client.get("/api/compare", params={"id": id, "other": other}).json()["apart"]
    a = weights(client, id=id, name="encoder.0.self", heads="1")
    b = weights(client, id=other, name="encoder.0.self", heads="1")
    assert apart["encoder.0.self"][1] == pytest.approx(np.abs(a - b).sum() / 2 / 5, abs=1e-5)
    assert client.get("/api/compare", params={"id": id, "other": shorter}).json()["left_out"] == list(apart)


def test_a_forced_search_begins_as_it_must(client: TestClient) -> None:
    tree = client.post("/api/beam", json={"run": "tiny", "text": "w5 w6", "beam": 2, "forced": [7, 9]}).json()
    assert all(hypothesis["ids"][:2] == [7, 9] for hypothesis in tree["hypotheses"])
    typed = client.post("/api/beam", json={"run": "tiny", "text": "w5 w6", "beam": 2, "word": "w7"}).json()
    assert typed["hypotheses"][0]["pieces"][0] == "w7"


def test_neighbours_and_analogies_leave_out_what_was_typed(client: TestClient) -> None:
    near = client.get("/api/near", params={"run": "tiny", "word": "w7"}).json()["near"]
    assert [one["cosine"] for one in near] == sorted((one["cosine"] for one in near), reverse=True)
    assert "w7" not in [one["token"] for one in near]
    found = client.post("/api/analogy", json={"run": "tiny", "minus": "w7", "base": "w8", "plus": "w9"}).json()
    assert not {"w7", "w8", "w9"} & {one["token"] for one in found["near"]}
    assert [one["token"] for one in found["typed"]] == ["w7", "w8", "w9"]


def test_a_full_line_is_told_and_empties_again() -> None:
    work, go = Work("a test", threads=1, most=2), Event()

    async def crowd() -> list[object]:
        waiting = [asyncio.create_task(work.do(lambda: go.wait(10))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Full, match="2 requests are waiting for a test already"):
            await work.do(lambda: None)
        go.set()
        await asyncio.gather(*waiting)
        return [await work.do(lambda: 5)]

    assert asyncio.run(crowd()) == [5]
    assert work.held == 0


def test_full_is_429_for_the_page() -> None:
    app = create({"tiny": TinyOpening(TinySession())})

    async def full() -> None:
        raise Full("3 requests are waiting for weights already; try again in a moment.")

    app.app.add_api_route("/api/full", full)  # type: ignore[attr-defined]
    answer = TestClient(app, base_url="http://127.0.0.1").get("/api/full")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert "try again" in answer.json()["error"]
