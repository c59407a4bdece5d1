"""Words in windows of pieces: aligned as transformers aligns them, every word once an epoch, padded and packed alike."""

from __future__ import annotations

from functools import cache

import numpy as np
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers

from regard.core.packing import IGNORED, Packing
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.pairs import Ragged
from regard.data.batching.tagged import TaggedBatches, TaggedTexts, WordReader, make_batch
from regard.text.tokenizer import Tokenizer, train_tokenizer

MARKS = SpecialTokens(101, 102, 103)
PIECES = ["[UNK]", *(f"{mark}{letter}" for mark in ("", "##") for letter in "abcdé"), "ab", "##cd", ".", "-", "abc"]
words = st.one_of(
    st.text("abcdeé.-", min_size=1, max_size=9), st.sampled_from(["\u200d", "\ufffd", "É", "abc", "a b", "[UNK]", "漢字"])
)
sentences = st.lists(st.lists(words, min_size=1, max_size=12), min_size=1, max_size=6)


@cache
def bert_tokenizer() -> Tokenizer:
    raw = tokenizers.Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.add_special_tokens(["[UNK]"])
    return Tokenizer(raw)


@given(sentences)
@settings(max_examples=150)
def test_pieces_are_those_of_words_that_are_given_apart(given_: list[list[str]]) -> None:
    """`is_pretokenized` is how transformers reads words; there a word may come to nothing, here it is an unknown one."""
    tokenizer = bert_tokenizer()
    ids, places = WordReader(tokenizer, MARKS, 1000).encode(given_)
    assert len(ids) == len(given_)
    for n, sentence in enumerate(given_):
        encoding = tokenizer.raw.encode(sentence, is_pretokenized=True, add_special_tokens=False)
        row, first, expected = ids[n].tolist(), list[int](), list[int | None]()
        for word in range(len(sentence)):
            mine = [piece for piece, of in zip(encoding.ids, encoding.word_ids) if of == word]
            first.append(1 + len(expected))
            expected += mine or [tokenizer.roles.unk]
        assert row == [MARKS.start, *expected, MARKS.end]
        assert places[n].tolist() == first


@given(sentences, st.integers(16, 30))
@settings(max_examples=100)
def test_windows_lose_no_word(given_: list[list[str]], window: int) -> None:
    reader = WordReader(bert_tokenizer(), MARKS, window)
    ids, places = reader.encode(given_)
    whole, starts = WordReader(bert_tokenizer(), MARKS, 1000).encode(given_)
    assert ids.lengths.max() <= window
    asked = [ids.flat[offset + place] for offset, row in zip(ids.offsets, range(len(ids))) for place in places[row]]
    expected = [whole.flat[offset + place] for offset, row in zip(whole.offsets, range(len(whole))) for place in starts[row]]
    assert asked == expected
    assert all((row[0], row[-1]) == (MARKS.start, MARKS.end) for row in map(ids.__getitem__, range(len(ids))))


def test_a_word_longer_than_a_window_is_cut() -> None:
    ids, places = WordReader(bert_tokenizer(), MARKS, 18).encode([["abab" * 20, "a", "ab" * 30 + "c"]])
    assert len(ids) == 1
    assert places[0].tolist() == [1, 5, 6]  # a quarter of the 16 that fit between the marks
    assert ids.lengths.tolist() == [11]


def test_bytes_get_the_space_before_a_word() -> None:
    """As RoBERTa's do in a sentence."""
    tokenizer = train_tokenizer("byte-bpe", ["the cat sat on the mat", "the cat the cat"], 290)
    ids, places = WordReader(tokenizer, MARKS, 100).encode([["the", "cat"]])
    assert ids[0][1:-1].tolist() == tokenizer.encode(" the cat")
    assert tokenizer.tokens([ids[0][place] for place in places[0]])[1].startswith("▁")


def encoded(count: int = 40, seed: int = 0) -> TaggedTexts:
    draw = np.random.default_rng(seed)
    sentences = [
        ["".join(draw.choice(list("abcd"), draw.integers(1, 6))) for _ in range(draw.integers(1, 15))] for _ in range(count)
    ]
    ids, places = WordReader(bert_tokenizer(), MARKS, 24).encode(sentences)
    return TaggedTexts.of(ids, places, draw.integers(0, 5, len(places.flat)))


@given(st.integers(24, 200), st.integers(0, 5))
@settings(max_examples=25)
def test_an_epoch_has_every_window_once_within_the_budget(tokens: int, epoch: int) -> None:
    data = encoded()
    source = TaggedBatches(data, tokens, seed=3)
    plan = source.plan(epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(data)))
    assert all(len(rows) == 1 or len(rows) * data.ids.lengths[rows].max() <= tokens for rows in plan)
    assert len(plan) == len(source.plan(epoch + 1))
    assert sum(source.count(rows) for rows in plan) == data.words
    assert [rows.tolist() for rows in plan] == [rows.tolist() for rows in TaggedBatches(data, tokens, seed=3).plan(epoch)]


def test_padded_and_packed_ask_for_the_same_words() -> None:
    data = encoded()
    rows = np.array([5, 0, 17, 3])
    pad, pack = (make_batch(data, rows, packed) for packed in (False, True))
    assert isinstance(pack.words, Packing)
    assert pad.tokens == pack.tokens == sum(len(data.places[row]) for row in rows)
    assert pad.ids_BL.flatten()[pad.places_W].tolist() == pack.ids_BL.flatten()[pack.places_W[: pack.tokens]].tolist()
    assert pad.tags_W.tolist() == pack.tags_W[: pack.tokens].tolist() == [tag for row in rows for tag in data.tags[row]]
    assert set(pack.tags_W[pack.tokens :].tolist()) == {IGNORED}
    assert pad.ids_BL.shape == (4, data.ids.lengths[rows].max())
    assert pack.ids_BL.shape == (1, pack.words.tokens)


def test_the_digest_sees_tags() -> None:
    data = encoded()
    other = TaggedTexts(data.ids, data.places, Ragged([[(t + 1) % 5 for t in data.tags[n]] for n in range(len(data))]))
    assert data.digest() == encoded().digest()
    assert data.digest() != other.digest()
