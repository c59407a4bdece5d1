"""Long texts and long words are cut before a vocabulary is learned, and ordinary text has the vocabulary that it had before."""

from __future__ import annotations

import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import kinds
from regard.text.config import KINDS, Kind
from regard.text.kinds import cut_long, has_long_words
from regard.text.tokenizer import Tokenizer, train_tokenizer

PROSE = "The well-known end, isn't it?  She said:\n\n\tnothing at all. 12 men -- don't\r\ngo  on .\n" * 5
MARKS = "e" + "\u0301" * 9_999


def learned(kind: Kind, *texts: str) -> Tokenizer:
    return train_tokenizer(kind, texts, 0 if kind == "byte" else 340)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_in_parts_gives_the_same_vocabulary(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = learned(kind, PROSE)
    monkeypatch.setattr("regard.text.tokenizer.cut_long", partial(cut_long, longest=90))
    assert learned(kind, PROSE).fingerprint() == whole.fingerprint()


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_words_are_not_cut(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where one long word makes them all pass by the knife."""
    whole = learned(kind, PROSE)
    monkeypatch.setattr(kinds, "has_long_words", lambda text, longest: True)
    assert learned(kind, PROSE).fingerprint() == whole.fingerprint()


@pytest.mark.parametrize("content", [MARKS, "x" * 10_000])
@pytest.mark.parametrize("kind", ["word", "spaced"])
def test_no_word_is_longer_than_the_trainers_can_bear(kind: Kind, content: str) -> None:
    """What merges are learned from is the same words, and the time that takes grows with the square of their length."""
    found = learned(kind, PROSE, content)
    assert max(len(piece) for piece in found.raw.get_vocab()) == kinds.LONGEST_WORD


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("word", "spaced", "wordpiece")])
def test_a_long_word_can_be_written_and_read(kind: Kind) -> None:
    found = learned(kind, PROSE, MARKS)
    text = PROSE.strip() if kind in ("character", "byte", "byte-bpe") else " ".join(PROSE.split())
    assert found.decode(found.encode(PROSE.strip())) == text


@given(st.lists(st.tuples(st.sampled_from("ab \n中\u0301"), st.integers(1, 12)), max_size=12), st.integers(2, 20))
@settings(max_examples=200, deadline=None)
def test_long_words_are_found(runs: list[tuple[str, int]], longest: int) -> None:
    """Wherever they lie; and shorter ones than half are never taken for such."""
    text = "".join(letter * times for letter, times in runs)
    sizes = [len(word) for word in re.findall(r"\s+|\S+", text)]
    if any(size >= longest for size in sizes):
        assert has_long_words(text, longest)
    if not any(size >= longest // 2 for size in sizes):
        assert not has_long_words(text, longest)
