"""Logs and metrics: a line for each request, without its texts unless they are asked for, and numbers that Prometheus reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from regard.serve.engine import Engine
from regard.serve.metrics import SECONDS
from tests.serve.plain_engine import PlainEngine
from tests.serve.served import client_of, model_of
from tests.serve.tiny_models import opened

SECRET = "confidential words"


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_line_of_json_for_each_request_has_texts_only_when_asked(texts: bool, stream: bool) -> None:
    lines = list[str]()
    with client_of(model_of("gpt", opened("gpt")), log_texts=texts, write=lines.append) as client:
        answer = client.post("/v1/completions", json={"prompt": SECRET, "stream": stream})
        client.post("/v1/completions", json={"prompt": SECRET, "n": 0})
        client.get(f"/v1/{SECRET}")
    records = [json.loads(line) for line in lines]
    first, second, third = records
    assert first["id"] == answer.headers["x-request-id"]
    assert (first["route"], first["status"], first["model"], first["streamed"]) == ("/v1/completions", 200, "gpt", stream)
    assert (first["prompt_tokens"], first["completion_tokens"]) == (2, 2)
    assert (second["status"], third["status"], third["route"]) == (400, 404, "other")
    told = any(word in line for line in lines for word in SECRET.split())
    assert told == texts
    if texts:
        assert first["body"]["prompt"] == SECRET
        assert first["outputs"] == ["words confidential"]


def test_native_routes_are_logged_alike() -> None:
    lines = list[str]()
    with client_of(model_of("tagger", opened("tagger")), log_texts=True, write=lines.append) as client:
        client.post("/v1/tag", json={"text": SECRET})
    assert json.loads(lines[0])["body"] == {"text": SECRET, "attention": False}


def metrics(page: str) -> dict[str, Any]:
    """Samples by name and labels, as Prometheus' own parser reads them."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_metrics_count_requests_tokens_and_times() -> None:
    predictor = opened("gpt")
    model = model_of("gpt", predictor, Engine(predictor))
    with client_of(model) as client:
        for _ in range(3):
            found = client.post("/v1/completions", json={"prompt": "the cat", "max_tokens": 4}).json()
        client.post("/v1/completions", json={"prompt": "the cat", "max_tokens": 4, "stream": True})
        client.post("/v1/completions", json={"prompt": ""})
        page = client.get("/metrics")
        assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
        got = metrics(page.text)
        assert (
            metrics(client.get("/metrics").text)["regard_engine_steps_total", ("model", "gpt")]
            == (got["regard_engine_steps_total", ("model", "gpt")])
        )
    here, own = ("route", "/v1/completions"), ("model", "gpt")
    assert got["regard_http_requests_total", own, here, ("status", "200")] == 4
    assert got["regard_http_requests_total", ("model", ""), here, ("status", "400")] == 1
    assert got["regard_http_seconds_count", own, here] == 4
    assert got["regard_http_first_token_seconds_count", own, here] == 1
    assert got["regard_http_seconds_bucket", ("le", str(float(SECONDS[-1]))), own, here] == 4
    assert got["regard_engine_generated_tokens_total", own] == 4 * found["usage"]["completion_tokens"]
    assert got["regard_engine_prompt_tokens_total", own] == 4 * found["usage"]["prompt_tokens"]
    assert got["regard_engine_finished_total", own] == got["regard_engine_accepted_total", own] == 4
    assert got["regard_engine_queued", own] == got["regard_engine_active", own] == 0
    assert got["regard_engine_memory_limit", own] > 0
    assert got["regard_engine_latency_seconds_count", own] == 4


def test_ready_and_health_differ_once_the_server_is_being_stopped() -> None:
    model = model_of("gpt", opened("gpt"), PlainEngine(opened("gpt")))
    with client_of(model) as client:
        assert client.get("/ready").status_code == 200
        model.engine.close(drain=True)
        client.app.app.app.state.api.draining = True  # type: ignore[attr-defined]
        answer = client.get("/ready")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "closing")
        assert answer.headers["connection"] == "close"
        assert client.get("/health").status_code == 200
        assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 503
