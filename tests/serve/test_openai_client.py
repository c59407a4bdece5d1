"""The real client of OpenAI's API, over a port of this machine, against the engine and a trained model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest

from regard.serve.engine import Engine
from regard.serve.keys import Keys
from tests.serve.served import app_of, key_file, listening, model_of
from tests.serve.tiny_models import opened

KEY = "the-key-of-a-test-0123"
SCHEMA = {
    "type": "object",
    "properties": {"likes": {"type": "boolean"}, "animal": {"enum": ["cat", "dog"]}},
    "required": ["likes", "animal"],
    "additionalProperties": False,
}
PROMPT = "the cat"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    keys = Keys.read(key_file(tmp_path_factory.mktemp("keys"), KEY))
    models = [model_of(name, opened(name), Engine(opened(name))) for name in ("gpt", "embedder", "responder")]
    with (
        listening(app_of(*models, keys=keys)) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0) as found,
    ):
        yield found
    for model in models:
        model.engine.close(drain=True)


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["gpt", "embedder", "responder"]
    assert client.models.retrieve("gpt").object == "model"


def test_a_completion_is_what_the_model_writes_by_itself(client: openai.OpenAI) -> None:
    alone = opened("gpt").searching(search="greedy", maximum_length=6).write([PROMPT, "the dog"])
    found = client.completions.create(model="gpt", prompt=[PROMPT, "the dog"], temperature=0, max_tokens=6, logprobs=2)
    for choice, (written,) in zip(found.choices, alone):
        assert choice.text == written.text
        assert choice.finish_reason == ("stop" if written.finished else "length")
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs == pytest.approx([token.logprob for token in written.tokens], abs=1e-5)
        assert choice.logprobs.top_logprobs is not None
        assert all(len(top) == 2 for top in choice.logprobs.top_logprobs)
    assert found.usage is not None
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens


def test_samples_follow_their_seed(client: openai.OpenAI) -> None:
    def drawn(seed: int) -> list[str]:
        asked: dict[str, Any] = {"model": "gpt", "prompt": PROMPT, "max_tokens": 8, "temperature": 1.0, "n": 3}
        return [choice.text for choice in client.completions.create(**asked, seed=seed).choices]

    assert drawn(1) == drawn(1) != drawn(2)
    own = opened("gpt").searching(search="sample", temperature=1.0, maximum_length=8, samples=3, seed=1).write([PROMPT])[0]
    assert drawn(1) == [written.text for written in own]


def test_a_stream_joins_to_the_completion(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "gpt", "prompt": PROMPT, "max_tokens": 12, "temperature": 1.0, "seed": 5}
    whole = client.completions.create(**asked)
    chunks = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole.choices[0].text
    assert chunks[-1].usage == whole.usage


def test_a_text_ends_where_a_stop_would_begin(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "gpt", "prompt": PROMPT, "max_tokens": 12, "temperature": 0}
    text = client.completions.create(**asked).choices[0].text
    stop = text[2:4]
    assert client.completions.create(**asked, stop=[stop]).choices[0].text == text[: text.index(stop)]


def test_a_chat_is_answered_whole_and_streamed(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "gpt",
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}],
        "max_completion_tokens": 5,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 1,
    }
    whole = client.chat.completions.create(**asked).choices[0]
    prompt = "System: Be short.\nUser: hi\nAssistant:"
    assert whole.message.content == opened("gpt").searching(search="greedy", maximum_length=5).write([prompt])[0][0].text
    assert whole.logprobs is not None
    assert whole.logprobs.content is not None
    assert all(token.top_logprobs[0].token == token.token for token in whole.logprobs.content)  # greedy
    pieces = [chunk.choices[0].delta for chunk in client.chat.completions.create(**asked, stream=True)]
    assert pieces[0].role == "assistant"
    assert "".join(piece.content or "" for piece in pieces) == whole.message.content


def test_a_model_of_dialogues_chats(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "hello"}]
    said = client.chat.completions.create(model="responder", messages=messages).choices[0].message.content
    assert said == opened("responder")("hello")
    with pytest.raises(openai.BadRequestError, match="system"):
        client.chat.completions.create(model="responder", messages=[{"role": "system", "content": "a"}, *messages])


@pytest.mark.parametrize("seed", range(3))
def test_json_follows_its_schema(client: openai.OpenAI, seed: int) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
    messages: Any = [{"role": "user", "content": "hi"}]
    found = client.chat.completions.create(
        model="gpt", messages=messages, response_format=form, temperature=1.0, seed=seed, max_tokens=40
    )
    content = json.loads(found.choices[0].message.content or "")
    assert isinstance(content["likes"], bool)
    assert content["animal"] in ("cat", "dog")
    assert content.keys() == {"likes", "animal"}


def test_vectors_are_those_of_the_model_as_floats_and_as_bytes(client: openai.OpenAI) -> None:
    texts, own = ["Ann left Rome .", "Bob"], opened("embedder").embed(["Ann left Rome .", "Bob"])
    found = client.embeddings.create(model="embedder", input=texts)  # for which the client asks for base64 by itself
    np.testing.assert_allclose([one.embedding for one in found.data], own, atol=1e-5)
    found = client.embeddings.create(model="embedder", input=texts, encoding_format="float")
    np.testing.assert_allclose([one.embedding for one in found.data], own, atol=1e-5)
    short = client.embeddings.create(model="embedder", input="Bob", dimensions=4).data[0].embedding
    np.testing.assert_allclose(short, own[1][:4] / np.linalg.norm(own[1][:4]), atol=1e-5)
    assert client.embeddings.create(model="embedder", input="Bob").usage.prompt_tokens > 0


def test_errors_are_those_that_the_client_knows(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model"):
        client.completions.create(model="gpt-9", prompt="a")
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.completions.create(model="gpt", prompt="a", temperature=-1)
    with pytest.raises(openai.BadRequestError, match="tokens"):
        client.completions.create(model="gpt", prompt="the cat " * 200)
    with pytest.raises(openai.AuthenticationError, match="key"):
        client.with_options(api_key="another-key-0123456789").models.list()
