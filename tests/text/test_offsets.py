"""Where pieces stand: no character that is seen is lost, no white space is taken along, whatever a vocabulary does to a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.text.config import KINDS, Kind
from regard.text.pretrained import read_pretrained
from regard.text.tokenizer import Tokenizer
from tests.text.samples import TEXTS, any_text, seen_text, trained


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.one_of(seen_text, any_text))
@settings(max_examples=25)
def test_places_are_where_the_text_is(kind: Kind, text: str) -> None:
    (found,) = trained(kind).encode_placed([text])
    assert found.ids == trained(kind).encode(text)
    assert len(found.starts) == len(found.ends) == len(found.ids)
    for start, end in zip(found.starts, found.ends):
        assert 0 <= start <= end <= len(text)
        assert text[start:end] == text[start:end].strip()


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_is_found_by_its_characters(kind: Kind) -> None:
    for text in TEXTS:
        (found,) = trained(kind).encode_placed([text])
        at = 0
        for word in text.split():
            start = text.index(word, at)
            at = start + len(word)
            pieces = found.pieces_of(start, at)
            assert pieces is not None, word
            assert found.characters_of(*pieces) == (start, at), (kind, word)


def test_spaces_and_accents_by_hand() -> None:
    (found,) = trained("bpe").encode_placed(["the  cafe\u0301s"])
    assert found.characters_of(*found.pieces_of(5, 9)) == (5, 10)  # type: ignore[misc]
    assert found.pieces_of(3, 5) is None  # the spaces between
    (accented,) = trained("wordpiece").encode_placed(["rue e\u0301"])
    assert accented.characters_of(*accented.pieces_of(4, 6)) == (4, 6)  # type: ignore[misc]
    (nothing,) = trained("word").encode_placed([""])
    assert (nothing.ids, nothing.pieces_of(0, 1)) == ([], None)


def test_a_public_vocabulary_that_takes_capitals_and_accents_off(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "##s", "the", "x"]) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    tokenizer: Tokenizer = read_pretrained(tmp_path)
    text = "The CAFÉS, the cafe\u0301"
    (found,) = tokenizer.encode_placed([text])
    assert [text[a:b] for a, b in zip(found.starts, found.ends)] == ["The", "CAFÉ", "S", ",", "the", "cafe\u0301"]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(UserError, match="half a character"):
        trained("bpe").encode_placed(["caf\udce9"])
