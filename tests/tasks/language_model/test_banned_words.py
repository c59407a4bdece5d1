"""All spellings of a word, against trying every sequence of pieces."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.language_model import generate
from regard.tasks.language_model.generate import spellings
from regard.text.config import Kind
from regard.text.tokenizer import Tokenizer, train_tokenizer

TEXTS = ["cab cat at a. bat.", "tab tact act b", "🙂"]
SIZES: dict[Kind, int] = {
    "byte": 0,
    "byte-bpe": 275,
    "bpe": 30,
    "unigram": 40,
    "character": 30,
    "word": 30,
    "spaced": 30,
    "wordpiece": 60,
}


@cache
def tokenizer(kind: Kind) -> Tokenizer:
    return train_tokenizer(kind, TEXTS, SIZES[kind])


@pytest.mark.parametrize("kind", ["byte", "byte-bpe", "bpe", "character"])
@given(word=st.text("abct", min_size=1, max_size=4))
@settings(max_examples=25)
def test_no_sequence_of_pieces_that_reads_so_is_missing(kind: Kind, word: str) -> None:
    tokens = tokenizer(kind)
    pieces = [i for i in range(len(tokens)) if i not in tokens.specials and set(tokens.decode([i])) <= set(word)]
    sequences = (ids for size in range(1, len(word) + 1) for ids in product(pieces, repeat=size))
    expected = {ids for ids in sequences if tokens.decode(ids) == word and tokens.decode([ids[0]])}
    found = spellings(tokens, word)
    assert {ids for ids in found if tokens.decode([ids[0]])} == expected  # but for a space alone, which is lost at a beginning
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("kind", SIZES)
def test_the_tokenizers_own_spelling_is_among_them(kind: Kind) -> None:
    for word in ("cat", "cat.", "🙂"):
        own = tuple(tokenizer(kind).encode(word))
        assert own in spellings(tokenizer(kind), word) or tokenizer(kind).specials & set(own)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "byte-bpe", "character"])
def test_a_full_stop_needs_no_space_before_it(kind: Kind) -> None:
    assert tuple(tokenizer(kind).encode("cat.")[-1:]) in spellings(tokenizer(kind), ".")


def test_what_cannot_be_spelt_bans_nothing() -> None:
    assert spellings(tokenizer("word"), "zebra") == []
    assert spellings(tokenizer("word"), "zebra.") == []  # and not the full stop
    assert spellings(tokenizer("bpe"), " ") == []


def test_of_a_long_word_the_fewest_pieces_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    every = spellings(tokenizer("byte-bpe"), "cabtactbat" * 2)
    sizes = list(map(len, every))
    assert sizes == sorted(sizes)
    assert sizes[0] <= len(tokenizer("byte-bpe").encode("cabtactbat" * 2))
    monkeypatch.setattr(generate, "MOST", 7)
    assert spellings(tokenizer("byte-bpe"), "cabtactbat" * 2) == every[:7]
    assert len(spellings(tokenizer("byte-bpe"), "cabtactbat" * 200)) == 7
