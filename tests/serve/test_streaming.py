"""Streams: what is sent, that it joins to the whole, and that work ends when nobody listens any more."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable
from time import sleep
from typing import Any

import httpx
import pytest

from regard.core.errors import UserError
from regard.serve.completions import chat_logprobs, completion_logprobs
from regard.serve.limits import Limits
from regard.serve.work import Sample, TokenScore, Work
from regard.serve.writing import joined
from tests.serve.plain_engine import PlainEngine
from tests.serve.served import app_of, client_of, events, listening, model_of
from tests.serve.tiny_models import opened

PROMPT = "one two three four"
HI = [{"role": "user", "content": "hi there"}]
LONG = 60.0


def test_pieces_join_to_the_whole_text_for_every_sample() -> None:
    with client_of(model_of("gpt", opened("gpt"))) as client:
        asked = {"prompt": [PROMPT, "a b"], "n": 2, "temperature": 1.0, "logprobs": 1}
        whole = client.post("/v1/completions", json=asked).json()
        answer = client.post("/v1/completions", json=asked | {"stream": True, "stream_options": {"include_usage": True}})
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer.text)
        assert found[-1]["choices"] == []
        assert found[-1]["usage"] == whole["usage"]
        assert len({chunk["id"] for chunk in found}) == 1
        for choice in whole["choices"]:
            own = [one for chunk in found for one in chunk["choices"] if one["index"] == choice["index"]]
            assert "".join(one["text"] for one in own) == choice["text"]
            assert [one["finish_reason"] for one in own][-1] == choice["finish_reason"]
            tokens = [token for one in own if one["logprobs"] for token in one["logprobs"]["tokens"]]
            assert tokens == choice["logprobs"]["tokens"]


def test_a_chat_begins_with_its_role_and_ends_with_a_reason() -> None:
    with client_of(model_of("gpt", opened("gpt"))) as client:
        asked = {"messages": [{"role": "user", "content": PROMPT}], "stream": True, "max_tokens": 2}
        first, *middle, last = [chunk["choices"][0] for chunk in events(client.post("/v1/chat/completions", json=asked).text)]
        assert first["delta"] == {"role": "assistant", "content": ""}
        assert len(middle) == 2
        assert (last["delta"], last["finish_reason"]) == ({}, "length")


def test_a_stream_that_fails_before_its_first_word_has_the_status_of_the_error() -> None:
    def fail(work: Work) -> None:
        raise UserError("the prompt is too long; shorten it.")

    with client_of(model_of("gpt", opened("gpt"), PlainEngine(opened("gpt"), failing=fail))) as client:
        for path, asked in (("completions", {"prompt": PROMPT}), ("chat/completions", {"messages": HI})):
            assert client.post(f"/v1/{path}", json=asked | {"stream": True}).status_code == 400


def test_an_error_in_a_stream_is_its_last_event() -> None:
    engine = PlainEngine(opened("gpt"), breaks_after=2)
    with client_of(model_of("gpt", opened("gpt"), engine)) as client:
        *words, last = events(client.post("/v1/completions", json={"prompt": PROMPT, "stream": True}).text)
        assert len(words) == 2
        assert last["error"]["type"] == "server_error"
        assert client.post("/v1/completions", json={"prompt": PROMPT}).status_code == 500


def waited(condition: Callable[[], bool]) -> bool:
    """Whether something came true, with minutes to spare."""
    for _ in range(6000):
        if condition():
            return True
        sleep(0.01)
    return False


def request(body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    lines = ["POST /v1/completions HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content


@pytest.mark.parametrize("stream", [True, False])
def test_work_is_given_up_when_the_client_goes(stream: bool) -> None:
    engine = PlainEngine(opened("gpt"))
    with listening(app_of(model_of("gpt", opened("gpt"), engine))) as port:
        for number in range(1, 6):
            engine.gate.clear()
            with socket.create_connection(("127.0.0.1", port), LONG) as one:
                one.sendall(request({"prompt": PROMPT, "stream": stream}))
                assert waited(lambda n=number: len(engine.seen) == n)
            assert waited(lambda: engine.last is not None and engine.last.cancelled)
            engine.gate.set()
            assert waited(lambda n=number: engine.cancelled == n)
        assert httpx.post(f"http://127.0.0.1:{port}/v1/completions", json={"prompt": PROMPT}, timeout=LONG).status_code == 200


def test_a_reader_that_reads_nothing_is_cut_off_and_others_are_answered() -> None:
    engine = PlainEngine(opened("gpt"))
    limits = Limits(unread=0.3, connections=4, body=2**26, characters=2**25)
    words = " ".join("w" * 1000 for _ in range(990))  # of which 16 are more than any buffer holds
    with listening(app_of(model_of("gpt", opened("gpt"), engine), limits=limits), limits) as port:
        with socket.create_connection(("127.0.0.1", port), LONG) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.sendall(request({"prompt": words, "stream": True, "n": 16, "temperature": 1.0}))
            assert waited(lambda: engine.last is not None and engine.last.cancelled)
        assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=LONG).status_code == 200


def test_a_full_queue_is_429_with_a_time_to_wait() -> None:
    engine = PlainEngine(opened("gpt"), most=0)
    with client_of(model_of("gpt", opened("gpt"), engine)) as client:
        for stream in (False, True):
            answer = client.post("/v1/completions", json={"prompt": PROMPT, "stream": stream})
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
            assert answer.json()["error"]["code"] == "queue_full"


def test_all_inputs_of_a_request_are_accepted_or_none() -> None:
    engine = PlainEngine(opened("gpt"), most=2)
    engine.gate.clear()
    with client_of(model_of("gpt", opened("gpt"), engine)) as client:
        assert client.post("/v1/completions", json={"prompt": ["a", "b", "c", "d"]}).status_code == 429
        assert all(ticket.cancelled for ticket in engine.tickets)
        engine.gate.set()


def test_what_cannot_come_has_a_log_probability_that_json_can_write() -> None:
    scores = [TokenScore(1, "a", -math.inf, ((2, "b", -math.inf),))]
    for told in (completion_logprobs(scores, 0), chat_logprobs(scores)):
        assert "-9999.0" in json.dumps(told, allow_nan=False)
    (sample,) = joined([Sample("a", [1], -math.inf, -math.inf, "stop")])
    assert sample["score"] == sample["logprob"] == -9999.0
