"""JSON by a schema, from vocabularies of every kind that can spell it: whatever is drawn from the allowed tokens is valid."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import pytest

from regard.core.errors import UserError
from regard.decode.config import DecodeConfig
from regard.serve.structured import JsonGuide, token_bytes
from regard.text.tokenizer import Tokenizer, train_tokenizer

TEXTS = [json.dumps({"name": "cat", "age": n, "tags": ["a", "b"], "good": True}) for n in range(60)]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"enum": ["cat", "dog", "naïve 猫"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
ASCII: dict[str, Any] = SCHEMA | {"properties": SCHEMA["properties"] | {"name": {"enum": ["cat", "dog"]}}}


def tokenizer(kind: Any) -> Tokenizer:
    return train_tokenizer(kind, TEXTS, {"byte": 0, "character": 100}.get(kind, 400))


def drawn(guide: JsonGuide, schema: dict[str, Any] | None, seed: int) -> str:
    """A text of tokens that are drawn from those allowed."""
    draw, mask, ids = random.Random(seed), guide.mask(schema), list[int]()
    while (token := draw.choice(list(mask(ids)))) not in guide.ends:
        ids.append(token)
        assert len(ids) < 2000
    return guide.tokenizer.decode(ids)


@pytest.mark.parametrize("kind", ["byte", "byte-bpe", "bpe", "unigram", "character"])
def test_whatever_is_drawn_follows_the_schema(kind: str) -> None:
    guide = JsonGuide.of(tokenizer(kind), DecodeConfig())
    schema = SCHEMA if kind.startswith("byte") else ASCII
    validator, found = jsonschema_rs.validator_for(schema), set[str]()
    for seed in range(12):
        found.add(text := drawn(guide, schema, seed))
        validator.validate(json.loads(text))
    assert len(found) > 6


def test_tokens_add_the_bytes_that_decoding_adds() -> None:
    for kind in ("byte-bpe", "bpe", "character"):
        own = tokenizer(kind)
        pieces, ids = token_bytes(own), own.encode(TEXTS[7])
        assert b"".join(pieces[i] for i in ids).decode().strip() == TEXTS[7]


def test_samples_that_part_keep_states_of_their_own() -> None:
    guide = JsonGuide.of(tokenizer("byte"), DecodeConfig())
    shared = guide.mask(ASCII)
    texts = [b'{"name":"cat","age":5,"tags":[]}', b'{"name":"dog","age":61,"tags":[true]}']
    rows = [guide.tokenizer.encode(text.decode()) for text in texts]
    for length in range(max(map(len, rows)) + 1):
        for row in rows:
            if length <= len(row):
                assert set(shared(row[:length])) == set(guide.mask(ASCII)(row[:length])), length
                following = row[length] if length < len(row) else guide.ends[0]
                assert following in shared(row[:length])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "thing"},
        {"$ref": "https://example.org/a.json"},
        {"$ref": "file:///etc/passwd"},
        {"enum": []},
        {"a": "b" * 100_000},
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="schema"):
        JsonGuide.of(tokenizer("byte"), DecodeConfig()).mask(schema)


def test_a_vocabulary_that_cannot_spell_json_says_so() -> None:
    words = train_tokenizer("word", ["the cat sees the dog"] * 3, 50)
    with pytest.raises(UserError, match="no token of this vocabulary"):
        drawn(JsonGuide.of(words, DecodeConfig()), SCHEMA, 0)
