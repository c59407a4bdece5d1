"""A document in parts is the document, and has the same tokens, whichever tokenizer counts them."""

from __future__ import annotations

from functools import cache
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.sources.text import Part, in_parts
from regard.text.config import KINDS
from regard.text.tokenizer import Tokenizer, train_tokenizer

LETTERS = "aé 　,.\n\t\r'1中\u0301<▁_-"
PROSE = "The well-known end, isn't it?  She said:\n\n\tnothing at all. 12 men -- don't\r\ngo  on .\n" * 3
texts = st.lists(st.one_of(st.text(LETTERS, max_size=40), st.sampled_from(PROSE.split(" ")).map(lambda w: w + " ")), max_size=30)


@cache
def tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer(kind, [PROSE, LETTERS], 0 if kind == "byte" else 400)


@given(texts, st.integers(2, 60))
@settings(max_examples=100)
def test_parts_put_together_are_the_document(document: list[str], longest: int) -> None:
    parts = list(in_parts(document, longest))
    if not "".join(document).strip() and len("".join(document)) <= longest:
        assert parts == []
        return
    assert "".join(part.text for part in parts) == "".join(document)
    assert [part.ends for part in parts] == [False] * (len(parts) - 1) + [True]
    assert all(len(part.text) <= longest for part in parts)


@pytest.mark.parametrize("kind", KINDS)
@given(
    words=st.lists(st.sampled_from([*PROSE.split(" "), "\n\n", "a  b", "é", "中文 中文"]), min_size=8, max_size=60),
    longest=st.integers(30, 80),
)
@settings(max_examples=40)
def test_tokens_of_the_parts_are_those_of_the_whole(kind: str, words: list[str], longest: int) -> None:
    whole = " ".join(words)
    parts = [part.text for part in in_parts([whole], longest)]
    assert list(chain(*tokenizer(kind).encode_batch(parts))) == tokenizer(kind).encode(whole)


def test_cuts_fall_between_words_if_they_can() -> None:
    assert list(in_parts(["one two. three\n\nfour"], 12)) == [
        Part("one", False),
        Part(" two. three", False),
        Part("\n\nfour", True),
    ]
    assert list(in_parts(["x" * 25], 10)) == [Part("x" * 10, False), Part("x" * 10, False), Part("xxxxx", True)]
