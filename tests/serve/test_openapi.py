"""The OpenAPI document: complete, with an example for each route that its model answers, and kept by every answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.serve.asking import ask, checker
from tests.serve.served import client_of, model_of
from tests.serve.tiny_models import OPENED, opened

NATIVE = {
    "/v1/translate",
    "/v1/summarize",
    "/v1/classify",
    "/v1/tag",
    "/v1/answer",
    "/v1/fill",
    "/v1/caption",
    "/v1/images/classify",
    "/v1/forecast",
    "/v1/reply",
}
OPENAI = {"/v1/completions", "/v1/chat/completions", "/v1/embeddings"}
FEW = ("gpt", "tagger", "forecaster", "images")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(*(model_of(name, opened(name)) for name in OPENED)) as found:
        yield found


@pytest.fixture(scope="module")
def document(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def examples(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        if "post" in operations:
            content = operations["post"]["requestBody"]["content"]["application/json"]
            assert content["examples"], path
            for one in content["examples"].values():
                yield path, one["value"]


def test_every_route_is_there_with_an_example_that_runs(client: TestClient, document: dict[str, Any]) -> None:
    asked = list(examples(document))
    assert {path for path, _ in asked} >= NATIVE | OPENAI
    assert {body["model"] for _, body in asked} == set(OPENED)
    for path, body in asked:
        answer = client.post(path, json=body)
        assert answer.status_code == 200, (path, body, answer.text)
        checker(document, path, "post")(answer, path)
        assert answer.json()["model"] == body["model"]


def test_models_name_their_routes(client: TestClient, document: dict[str, Any]) -> None:
    listed = client.get("/v1/models").json()["data"]
    by_path = {(path, body["model"]) for path, body in examples(document)}
    assert by_path == {(route, model["id"]) for model in listed for route in model["routes"]}


def test_attention_comes_beside_the_answer_where_it_is_asked_for(client: TestClient, document: dict[str, Any]) -> None:
    drawn = 0
    for path, body in examples(document):
        if path in OPENAI or path == "/v1/forecast":
            continue
        answer = client.post(path, json=body | {"attention": True})
        if answer.status_code == 400:
            assert "no attention weights" in answer.text
            continue
        checker(document, path, "post")(answer, path)
        (weights, *_) = answer.json()["attention"]
        for row in rows_of(weights):
            assert sum(row) == pytest.approx(1, abs=1e-3)
        drawn += 1
    assert drawn >= 11


def rows_of(weights: dict[str, Any]) -> list[list[float]]:
    """The weights of each query, or of each word of a caption; of a few, since all of a kind are alike."""
    if "maps" in weights:
        return [[cell for row in map_YX for cell in row] for map_YX in weights["maps"][:4]]
    return [row for layer in weights["weights"] for head in layer for row in head][:50]


def test_requests_drawn_from_the_document_are_answered_as_it_says() -> None:
    with client_of(*(model_of(name, opened(name)) for name in FEW)) as client:
        found = ask(client, 15)
    assert sum(found.requests.values()) > 180
    assert found.statuses[200] > 30
    assert found.statuses[400] > 60
