"""Whatever comes, in whatever pieces: what is told is the text up to the first stop, and never half a character."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.generated_text import StreamedText
from regard.text.config import Kind
from regard.text.tokenizer import Tokenizer, train_tokenizer

TEXTS = ["abab abcab ba", "the cat\n\nsees the\ncat", "naïve 漢字 🙂🙂 é", "aaaa bbbb abba"]
KINDS: tuple[Kind, ...] = ("character", "byte", "byte-bpe", "bpe", "spaced")
SIZES: dict[Kind, int] = {"byte": 0, "byte-bpe": 280, "bpe": 60, "character": 60, "spaced": 60}


@cache
def tokenizer(kind: Kind) -> Tokenizer:
    return train_tokenizer(kind, TEXTS, SIZES[kind])


def before_the_first_stop(text: str, stops: Sequence[str]) -> str:
    """By trying: the shortest beginning that ends with a stop, without the longest such stop."""
    for end in range(len(text) + 1):
        if found := [stop for stop in stops if text[:end].endswith(stop)]:
            return text[: end - max(map(len, found))]
    return text


def tell(kind: Kind, ids: Sequence[int], cuts: Sequence[int], stops: Sequence[str], after: Sequence[int] = ()) -> list[str]:
    """The pieces, when ids are handed over in parts that end at the cuts."""
    pieces: list[str] = []
    telling = StreamedText(tokenizer(kind), stops, pieces.append, after)
    edges = [0, *sorted({cut % (len(ids) + 1) for cut in cuts}), len(ids)]
    for begin, end in pairwise(edges):
        if telling.add(ids[begin:end]):
            break
    telling.end()
    assert telling.text == "".join(pieces)
    return pieces


letters = st.text("ab c\n🙂é漢", max_size=30)


@pytest.mark.parametrize("kind", ["character", "byte", "byte-bpe"])
@given(text=letters, stops=st.lists(st.text("ab \n🙂é", min_size=1, max_size=4), max_size=3), cuts=st.lists(st.integers(0, 99)))
@settings(max_examples=120)
def test_it_ends_where_the_first_stop_begins(kind: Kind, text: str, stops: list[str], cuts: list[int]) -> None:
    ids = tokenizer(kind).encode(text)
    whole = tokenizer(kind).decode(ids)
    assert "".join(tell(kind, ids, cuts, stops)) == before_the_first_stop(whole, stops)


@given(data=st.data())
@settings(max_examples=120)
def test_bytes_that_are_no_characters_are_told_as_they_are_decoded(data: st.DataObject) -> None:
    """A model may write any bytes."""
    ids = data.draw(st.lists(st.integers(0, len(tokenizer("byte")) - 1), max_size=20))
    stops = data.draw(st.lists(st.text("ab\n", min_size=1, max_size=2), max_size=2))
    whole = tokenizer("byte").decode(ids)
    assert "".join(tell("byte", ids, [3, 7, 8], stops)) == before_the_first_stop(whole, stops)


@pytest.mark.parametrize("kind", KINDS)
@given(prompt=st.sampled_from(["", "the cat", "abab", "the\n", "🙂", "a\ufffd"]), written=st.sampled_from(TEXTS))
@settings(max_examples=30)
def test_after_a_prompt_both_together_are_the_text(kind: Kind, prompt: str, written: str) -> None:
    """Where pieces lose their space at the beginning of a text, this is none."""
    before, after = (tokenizer(kind).encode(text) for text in (prompt, written))
    told = "".join(tell(kind, after, [1, 2], [], before))
    assert tokenizer(kind).decode(before) + told == tokenizer(kind).decode([*before, *after])


def test_what_may_become_a_stop_is_held_back() -> None:
    ids = tokenizer("character").encode("abc ab")
    pieces: list[str] = []
    telling = StreamedText(tokenizer("character"), ["abba"], pieces.append)
    told = []
    for i in ids:
        telling.add([i])
        told.append("".join(pieces))
    assert told == ["", "", "abc", "abc ", "abc ", "abc "]
    telling.end()
    assert "".join(pieces) == "abc ab"


def test_tokens_behind_the_stop_are_not_kept() -> None:
    ids = tokenizer("character").encode("abcab")
    telling = StreamedText(tokenizer("character"), ["bc"])
    assert telling.add(ids)
    assert (telling.text, telling.ids) == ("a", ids[:3])
    assert telling.add(ids)
    assert telling.ids == ids[:3]


def test_of_two_stops_the_one_that_is_whole_first_counts_however_large_the_tokens() -> None:
    """By letters "bc" ends "abcd" before "abcd" can; a token that has all four must not tell otherwise."""
    large = train_tokenizer("word", ["abcd"], 5)
    for tokens in (large, train_tokenizer("character", ["abcd"], 8)):
        telling = StreamedText(tokens, ["abcd", "bc"])
        telling.add(tokens.encode("abcd"))
        assert telling.text == "a"
