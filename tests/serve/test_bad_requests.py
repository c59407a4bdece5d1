"""Wrong requests: each is answered by one clear sentence, with a status that says whose mistake it is; none by a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serve.limits import Limits
from tests.serve.served import client_of, model_of
from tests.serve.tiny_models import opened

LIMITS = Limits(texts=4, characters=200, body=20_000, samples=4, tokens=100)
NAMES = ("gpt", "translator", "retriever", "classifier", "tagger", "captioner", "images", "forecaster")
HI = [{"role": "user", "content": "hi"}]
WAVE = {name: [1.0, 2.0] * 12 for name in "abc"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(*(model_of(name, opened(name)) for name in NAMES), limits=LIMITS) as found:
        yield found


def told(client: TestClient, path: str, body: Any, status: int) -> str:
    """The sentence that a body is refused with."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(f"/v1{path}", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    sentence: str = error["message"]
    assert 10 < len(sentence) <= 400
    assert sentence[-1] in ".?"
    assert "\n" not in sentence
    for wrong in ("Traceback", "pydantic", "Error(", "Input should"):
        assert wrong not in sentence
    return sentence


COMPLETIONS: list[tuple[Any, str]] = [
    (b"", "the body is missing"),
    (b"{", "not JSON"),
    (b"\xff\xfe\x00", "not JSON"),
    (b"[" * 100_00, "nested too deeply"),
    (b'{"prompt": ' + b"9" * 5000 + b"}", "a number that is too long"),
    (b"[]", "must be an object"),
    (b'"text"', "must be an object"),
    ({}, "prompt is missing"),
    ({"prompt": None}, "prompt must be a text"),
    ({"prompt": 3}, "prompt must be a text"),
    ({"prompt": ""}, "prompt is empty"),
    ({"prompt": []}, "prompt has 0 entries"),
    ({"prompt": ["a", ""]}, "prompt.1 is empty"),
    ({"prompt": ["a", 1]}, "prompt.1 must be a text"),
    ({"prompt": ["a"] * 5}, "5 inputs, and 4 are taken"),
    ({"prompt": "a" * 201}, "201 characters, and 200"),
    (b'{"prompt": "\\ud800"}', "half a character"),
    ({"prompt": "a", "promt": "b"}, "promt is not known"),
    ({"prompt": "a", "echo": True}, "echo is not known"),
    ({"prompt": "a", "max_tokens": 0}, "max_tokens must be at least 1"),
    ({"prompt": "a", "max_tokens": "5"}, "max_tokens must be a whole number"),
    ({"prompt": "a", "max_tokens": 1.5}, "max_tokens must be a whole number"),
    ({"prompt": "a", "max_tokens": 101}, "100 are written at most"),
    ({"prompt": "a", "temperature": -1}, "temperature must be at least 0"),
    ({"prompt": "a", "temperature": "hot"}, "temperature must be a number"),
    (b'{"prompt": "a", "temperature": NaN}', "temperature must be a finite number"),
    ({"prompt": "a", "temperature": 1e-9}, "temperature"),
    ({"prompt": "a", "top_p": 0}, "top_p must be more than 0"),
    ({"prompt": "a", "top_p": 1.1}, "top_p must be at most 1"),
    ({"prompt": "a", "top_k": -1}, "top_k must be at least 0"),
    ({"prompt": "a", "min_p": 2}, "min_p must be at most 1"),
    ({"prompt": "a", "repetition_penalty": 0}, "repetition_penalty must be more than 0"),
    ({"prompt": "a", "n": 0}, "n must be at least 1"),
    ({"prompt": "a", "n": 5}, "4 are written at most"),
    ({"prompt": "a", "n": 2, "temperature": 0}, "at temperature 0 all are the same"),
    ({"prompt": "a", "seed": -1}, "seed must be at least 0"),
    ({"prompt": "a", "seed": 2**63}, "seed must be less than"),
    ({"prompt": "a", "stop": ""}, "stop is empty"),
    ({"prompt": "a", "stop": ["a", ""]}, "stop.1 is empty"),
    ({"prompt": "a", "stop": ["a"] * 17}, "stop has more than the 16 entries"),
    ({"prompt": "a", "logprobs": 21}, "logprobs must be at most 20"),
    ({"prompt": "a", "stream": "yes"}, "stream must be true or false"),
    ({"prompt": "a", "stream_options": {"include_usage": True}}, "stream_options is for stream=true"),
    ({"prompt": "a", "response_format": {"type": "xml"}}, "response_format.type must be 'text'"),
    ({"prompt": "a", "response_format": {"type": "json_schema"}}, "no schema"),
    ({"prompt": "a", "response_format": "json"}, "response_format must be an object"),
    (
        {"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "thing"}}}},
        "JSON schema cannot be followed",
    ),
    (
        {
            "prompt": "a",
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"$ref": "https://example.org/a"}}},
        },
        "JSON schema cannot be followed",
    ),
    ({"prompt": "a", "model": "translator"}, "model 'translator' does not answer /v1/completions"),
    ({"prompt": "a", "model": 5}, "model must be a text"),
]

OTHERS: list[tuple[str, Any, str]] = [
    ("/chat/completions", {}, "messages is missing"),
    ("/chat/completions", {"messages": []}, "messages has 0 entries"),
    ("/chat/completions", {"messages": [{"role": "user"}]}, "messages.0.content is missing"),
    ("/chat/completions", {"messages": [{"role": "robot", "content": "a"}]}, "messages.0.role must be"),
    ("/chat/completions", {"messages": [{"role": "user", "content": " "}]}, "last message is empty"),
    ("/chat/completions", {"messages": [{"role": "assistant", "content": "a"}]}, "the assistant's"),
    (
        "/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://localhost/a.png"}}]}]},
        "messages.0.content.0.",
    ),
    ("/chat/completions", {"messages": HI, "top_logprobs": 2}, "top_logprobs needs logprobs"),
    ("/chat/completions", {"messages": HI, "max_tokens": 2, "max_completion_tokens": 2}, "mean the same"),
    ("/chat/completions", {"messages": [{"role": "user", "content": "a" * 300}]}, "300 characters"),
    ("/chat/completions", {"messages": HI, "tools": []}, "tools is not known"),
    ("/embeddings", {"input": " "}, "the text is empty"),
    ("/embeddings", {"input": ["a"], "encoding_format": "hex"}, "encoding_format must be 'float' or 'base64'"),
    ("/embeddings", {"input": ["a"], "dimensions": 100_000}, "dimensions=100,000"),
    ("/translate", {"text": " "}, "the text is empty"),
    ("/translate", {"text": "a", "beam": 2, "temperature": 1.0}, "leave one of them out"),
    ("/translate", {"text": "a", "beam": 2, "n": 3}, "beam=2 finds 2 at most"),
    ("/translate", {"text": "a", "beam": 65}, "beam must be at most 64"),
    ("/translate", {"text": "a b " * 50, "attention": 1}, "attention must be true or false"),
    ("/classify", {"text": "a", "pair": "b"}, "single texts"),
    ("/classify", {"text": ["a", "b"], "pair": "b"}, "2 texts and 1 pairs"),
    ("/classify", {"text": ["a", " "]}, "the text is empty"),
    ("/tag", {"text": ["a"] * 5}, "5 inputs"),
    ("/reply", {"turns": [" "]}, "is empty"),
    ("/reply", {"turns": ["a __eou__ b"]}, "is several"),
    ("/reply", {"turns": ["hello"], "beam": 4}, "beam does nothing"),
    ("/reply", {"turns": ["hello"], "attention": True}, "no attention weights"),
    ("/caption", {"image": "/etc/passwd"}, "the image is not base64"),
    ("/caption", {"image": "http://127.0.0.1/a.png"}, "the image is not base64"),
    ("/caption", {"image": "file:///etc/passwd"}, "the image is not base64"),
    ("/caption", {"image": "data:image/png,abc"}, "not in base64"),
    ("/caption", {"image": "aGVsbG8="}, "not an image"),
    ("/images/classify", {"image": []}, "image has 0 entries"),
    ("/images/classify", {"image": "builtin:scenes/test/1"}, "the image is not base64"),
    ("/forecast", {"values": {}}, "values has 0 entries"),
    ("/forecast", {"values": {"a": WAVE["a"]}}, "has no 'b'"),
    ("/forecast", {"values": WAVE | {"d": [1.0]}}, "which this run does not know"),
    ("/forecast", {"values": WAVE | {"c": [1.0]}}, "lists of 1 and of 24"),
    ("/forecast", {"values": {name: [1.0] for name in "abc"}, "known": {"event": [0.0] * 7}}, "has 1 rows of values"),
    ("/forecast", {"values": WAVE | {"a": ["1"] * 24}}, "must be a number"),
    ("/forecast", {"values": WAVE, "known": {"e": [1.0]}}, "which this run does not know"),
    ("/forecast", {"values": WAVE, "known": {"event": [1.0]}}, "30 are needed"),
    ("/forecast", {"values": WAVE}, "'known' has no 'event'"),
]


@pytest.mark.parametrize(("body", "said"), COMPLETIONS, ids=range(len(COMPLETIONS)))
def test_a_wrong_completion_is_refused_in_a_sentence(client: TestClient, body: Any, said: str) -> None:
    assert said in told(client, "/completions", body, 400)


@pytest.mark.parametrize(("path", "body", "said"), OTHERS, ids=range(len(OTHERS)))
def test_a_wrong_request_of_any_route_is_refused_in_a_sentence(client: TestClient, path: str, body: Any, said: str) -> None:
    assert said in told(client, path, body, 400)


def test_a_model_that_is_not_here_is_404_and_the_nearest_is_named(client: TestClient) -> None:
    assert "did you mean 'translator'" in told(client, "/translate", {"text": "a", "model": "translater"}, 404)


def test_a_body_that_is_too_large_is_413_whether_it_says_so_or_not(client: TestClient) -> None:
    assert "20,000 bytes" in told(client, "/completions", b"x" * 20_001, 413)
    answer = client.post("/v1/completions", content=iter([b"x" * 15_000] * 2), headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert "20,000" in answer.json()["error"]["message"]


def test_other_addresses_and_methods_are_json_too(client: TestClient) -> None:
    assert client.get("/v1/nothing").status_code == 404
    assert client.delete("/v1/completions").status_code == 405
    assert client.get("/v1/models/none").json()["error"]["code"] == "model_not_found"
    assert client.get("/v1/models/gpt").json()["id"] == "gpt"


def test_a_form_is_no_request(client: TestClient) -> None:
    """A page of another site may post a form, or plain text, without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"):
        answer = client.post("/v1/completions", content=b'{"prompt": "a"}', headers={"content-type": kind})
        assert answer.status_code == 400, kind
