"""Blanks typed by a person, and the pieces that go on with a word: for every kind of vocabulary, and beside transformers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.text.config import KINDS, Kind
from regard.text.tokenizer import Blanks, Tokenizer
from tests.text.samples import seen_text, trained

every = pytest.mark.parametrize("kind", KINDS)


def masked(kind: Kind) -> Tokenizer:
    return trained(kind).with_mask()


@every
def test_one_more_piece_hides_words_and_the_rest_stays(kind: Kind) -> None:
    before, after = trained(kind), masked(kind)
    assert after.roles == before.roles._replace(mask=len(before))
    assert len(after) == len(before) + 1
    text = "the animal was <mask> tired."
    assert after.encode(text) == before.encode(text)  # written by a person it is text
    assert after.roles.mask in after.specials
    assert after.decode([after.roles.mask]) == ""


@every
def test_it_comes_back_from_its_file(kind: Kind, tmp_path) -> None:
    masked(kind).save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint() == masked(kind).fingerprint()
    assert Blanks(again).encode(["the [MASK] was"]) == Blanks(masked(kind)).encode(["the <mask> was"])


@every
def test_a_blank_stands_where_the_word_stood(kind: Kind) -> None:
    tokenizer = masked(kind)
    blanks = Blanks(tokenizer)
    for text, word in (("the animal was tired.", "animal"), ("the street was wide", "wide"), ("la rue, the street", "rue")):
        before = text.split(word)[0]
        (found,) = blanks.encode([text.replace(word, "[MASK]")])
        place = found.index(blanks.mask)
        spaced = kind in ("character", "byte")  # where a space is a piece of its own
        whole, head = tokenizer.encode(text), tokenizer.encode(before if spaced else before.rstrip())
        assert found[:place] == head == whole[:place]
        assert found[place + 1 :] == whole[len(whole) - (len(found) - place - 1) :], (kind, text)
        if kind != "spaced":  # whose words have their punctuation with them
            assert tokenizer.decode(whole[place : len(whole) - (len(found) - place - 1)]).strip() == word


@every
@given(text=seen_text, more=st.lists(st.sampled_from(["[MASK]", "<mask>"]), max_size=3))
@settings(max_examples=15)
def test_there_are_as_many_blanks_as_were_typed(kind: Kind, text: str, more: list[str]) -> None:
    blanks = Blanks(masked(kind))
    (found,) = blanks.encode([" ".join([text, *more])])
    assert found.count(blanks.mask) == len(more)


def test_other_specials_stay_text() -> None:
    tokenizer = masked("wordpiece")
    (found,) = Blanks(tokenizer).encode(["[MASK] <eos> <pad>"])
    assert found.count(tokenizer.roles.eos) == found.count(tokenizer.roles.pad) == 0


def test_a_vocabulary_that_hides_nothing() -> None:
    with pytest.raises(UserError, match="no piece that hides a word"):
        Blanks(trained("bpe"))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "byte-bpe"])
def test_pieces_that_go_on_with_a_word(kind: Kind) -> None:
    tokenizer = masked(kind)
    goes_on = tokenizer.continuing()
    text = "the animal was restarted tired"
    words: list[list[int]] = []
    for number in tokenizer.encode(text):
        if not words or not goes_on[number]:
            words.append([])
        words[-1].append(number)
    assert [tokenizer.decode(word).strip() for word in words] == text.split()
    assert len(tokenizer.encode(text)) > 5
    assert not goes_on[list(tokenizer.specials)].any()
    assert not goes_on[tokenizer.encode("tired.")[-1]]  # a full stop is none of the word's


@pytest.mark.parametrize("kind", ["word", "character", "byte", "spaced"])
def test_where_there_are_no_pieces_of_words(kind: Kind) -> None:
    with pytest.raises(UserError, match=r"objective.whole_words=true joins pieces of words, but .* set it to false"):
        masked(kind).continuing()
