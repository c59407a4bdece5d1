"""What is said of a text stands with it, whatever order texts come in, with repeated and empty ones among them, in batches."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.config import RetrievalConfig
from regard.data.sources.dialogues import Exchange
from regard.decode.config import DecodeConfig
from regard.tasks.generated_text import GeneratedText
from regard.tasks.registry import open_run
from regard.tasks.retrieval.predict import ReplyIndex, Retriever
from regard.tasks.translation.predict import Translator
from tests import command
from tests.tasks import tiny_questions

SENTENCES = [source for source, _ in command.SENTENCES[:9]] + ["the cat .", "the dog sees the bird . the bird hears the cat ."]
MIXED = st.lists(st.sampled_from([*SENTENCES, "", "  "]), max_size=40)


@cache
def opened(run: Path) -> Any:
    return open_run(run, "cpu")


def echoed(translator: Translator, sources: list[list[int]], numbers: list[int]) -> list[list[GeneratedText]]:
    """In place of a search: the source itself, and which of all it is said to be."""
    texts = [translator.tokenizers.source.decode(ids[:-1]) for ids in sources]
    return [
        [GeneratedText(text, float(number), 0.0, True, ids)] for text, number, ids in zip(texts, numbers, sources, strict=True)
    ]


@settings(max_examples=25)
@given(MIXED, st.integers(1, 60), st.integers(0, 5))
def test_translations(texts: list[str], budget: int, first: int) -> None:
    translator = replace(opened(command.trained()), decode=DecodeConfig(batch_tokens=budget))
    with patch.object(Translator, "_search", lambda self, sources, numbers: echoed(self, sources, numbers)):
        found = translator.translate(texts, first)
        told: list[str] = []
        translator.predict(texts, first, False, told.append)
    spoken = [
        translator.tokenizers.source.decode(translator.tokenizers.source.encode(text)) if text.strip() else "" for text in texts
    ]
    assert [best[0].text for best in found] == spoken
    assert "".join(told) == "".join(f"{text}\n" for text in spoken)
    assert all(best[0].score == first + n for n, best in enumerate(found) if texts[n].strip())


def asked(n: int) -> str:
    """Contexts without a word in common, of different lengths."""
    return "Which animal?\t" + " ".join(f"w{n}x{k}" for k in range(1 + 3 * n))


@settings(max_examples=25)
@given(st.lists(st.integers(-1, 6), max_size=20))
def test_answers(numbers: list[int]) -> None:
    """Whatever a model says, it is a part of the context that it was asked about, from where it says."""
    told: list[str] = []
    texts = ["" if n < 0 else asked(n) for n in numbers]
    opened(tiny_questions.trained()).predict(texts, 0, True, told.append)
    for text, line in zip(texts, told, strict=True):
        record = json.loads(line)
        assert f"{record['question']}\t{record['context']}".strip() == text
        assert bool(record["answers"]) == bool(text)
        assert all(one["text"] and record["context"][one["start"] : one["end"]] == one["text"] for one in record["answers"])


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=20), st.lists(st.integers(-1, 7), max_size=12)
)
def test_replies(exchanges: list[tuple[int, int]], said: list[int]) -> None:
    """The kept reply to what is nearest, also where contexts and replies come several times: context n points along axis n."""
    kept = ReplyIndex.of([Exchange((f"c{context}",), f"r{reply}") for context, reply in exchanges])
    data = RetrievalConfig(train=("x",), compare="contexts")

    def along(self: Retriever, side: str, texts: list[tuple[str, ...]]) -> np.ndarray:
        return np.eye(8, dtype=np.float32)[[int(turns[-1][1:]) for turns in texts]].reshape(-1, 8)

    told: list[str] = []
    with patch.object(Retriever, "vectors", along):
        bot = Retriever(None, None, kept, data, DecodeConfig())  # type: ignore[arg-type]
        bot.predict(["" if n < 0 else f"c{n}" for n in said], 0, False, told.append)
    first = dict(reversed(exchanges))
    for n, line in zip(said, told, strict=True):
        if n in first:
            assert line == f"r{first[n]}\n"
        elif n < 0:
            assert line == "\n"
