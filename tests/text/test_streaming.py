"""However ids are handed over, the pieces of text put together are what `decode` makes of all, and none is taken back."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from functools import cache

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.text.config import KINDS, Kind
from regard.text.tokenizer import KEPT, Stream, Tokenizer, train_tokenizer
from tests.text.samples import any_text, mixed_lines, trained

LETTERS = "adehilnorstuw'.é"


def ended_words() -> Tokenizer:
    """As GPT-1: a piece says that a word ends with it, and the space comes with the next."""
    pieces = ["<unk>", *LETTERS, *(letter + "</w>" for letter in LETTERS)]
    raw = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], end_of_word_suffix="</w>"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder(suffix="</w>")
    raw.add_special_tokens(["<unk>"])
    return Tokenizer(raw)


def bytes_in_need() -> Tokenizer:
    """As Llama: what has no piece is spelt in bytes, and one wrong byte spoils all beside it."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS]
    raw = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], byte_fallback=True))
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    raw.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer(raw)


def spaces_between() -> Tokenizer:
    """No decoder at all: pieces with a space between."""
    raw = tokenizers.Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(["<unk>", *LETTERS])}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.add_special_tokens(["<unk>"])
    return Tokenizer(raw)


FOREIGN: dict[str, Callable[[], Tokenizer]] = {
    "ended words": ended_words,
    "bytes in need": bytes_in_need,
    "spaces between": spaces_between,
}
every_tokenizer = pytest.mark.parametrize("name", [*KINDS, *FOREIGN])


@cache
def named(name: str) -> Tokenizer:
    if name in FOREIGN:
        return FOREIGN[name]()
    kind: Kind = next(kind for kind in KINDS if kind == name)
    return trained(kind)


def check(tokenizer: Tokenizer, parts: Sequence[Sequence[int]]) -> None:
    whole = tokenizer.decode([i for part in parts for i in part])
    stream, text = Stream(tokenizer), ""
    for part in parts:
        text += stream.add(part)
        assert whole.startswith(text)
    assert text + stream.end() == whole


@every_tokenizer
@given(data=st.data())
@settings(max_examples=120)
def test_any_ids_in_any_parts(name: str, data: st.DataObject) -> None:
    """Ids as a model without sense might write them: broken bytes, specials in between, some beyond the vocabulary."""
    tokenizer = named(name)
    anything = st.integers(0, len(tokenizer) + 2)
    specials = st.integers(0, 3)
    check(tokenizer, data.draw(st.lists(st.lists(st.one_of(anything, anything, specials), max_size=4), max_size=20)))


@every_tokenizer
@given(text=st.one_of(any_text, st.lists(st.sampled_from(["the ", "rue", " était", "👩‍👩‍👧", ".", " n't", "日本"])).map("".join)))
@settings(max_examples=40)
def test_text_one_id_at_a_time(name: str, text: str) -> None:
    check(named(name), [[i] for i in named(name).encode(text)])


@given(raw_bytes=st.binary(max_size=24))
@settings(max_examples=200)
def test_broken_bytes_one_at_a_time(raw_bytes: bytes) -> None:
    check(named("byte"), [[4 + byte] for byte in raw_bytes])
    check(named("bytes in need"), [[3 + byte] for byte in raw_bytes])


@given(text=any_text.map(lambda text: text.replace("\ufffd", "")))
@settings(max_examples=80)
def test_a_character_comes_with_its_last_byte_and_no_later(text: str) -> None:
    """Python's own incremental decoder says when."""
    tokenizer, oracle = named("byte-bpe"), codecs.getincrementaldecoder("utf-8")()
    alone = Stream(trained("byte"))
    for byte in text.encode():
        assert alone.add([4 + byte]) == oracle.decode(bytes([byte]))
    stream = Stream(tokenizer)
    for part in [[i] for i in tokenizer.encode(text)]:
        assert "\ufffd" not in stream.add(part)
    assert stream.end() == ""


def test_words_come_as_soon_as_they_are_there() -> None:
    stream = Stream(trained("word"))
    assert [stream.add([i]) for i in trained("word").encode("parce qu'il dort.")] == ["parce", " qu", "'", "il", " dort", "."]
    assert stream.end() == ""
    assert [stream.add([i]) for i in trained("word").encode("elle dort")] == ["elle", " dort"]


def test_after_the_end_a_new_text_begins() -> None:
    tokenizer, stream = trained("bpe"), Stream(trained("bpe"))
    for _ in range(2):
        assert stream.add(tokenizer.encode("la rue")) + stream.end() == "la rue"
    assert Stream(tokenizer).end() == Stream(tokenizer).add([]) == ""


class Counting(Tokenizer):
    """Remembers the most ids it had to decode at once."""

    most = 0

    def decode(self, ids: Sequence[int]) -> str:
        self.most = max(self.most, len(ids))
        return super().decode(ids)


@pytest.mark.parametrize("name", [*(kind for kind in KINDS), "ended words", "spaces between"])
def test_the_cost_of_an_id_does_not_grow(name: str) -> None:
    tokenizer = Counting(named(name).raw)
    stream = Stream(tokenizer)
    for i in tokenizer.encode(" ".join(["the street"] * 300 + mixed_lines(50, seed=7))):
        stream.add([i, 0, 0])
    assert tokenizer.most <= KEPT + 1


def test_broken_bytes_do_not_pile_up() -> None:
    tokenizer = Counting(named("byte").raw)
    stream = Stream(tokenizer)
    text = "".join(stream.add([4 + 0xFF]) for _ in range(1000)) + stream.end()
    assert text == "\ufffd" * 1000
    assert tokenizer.most <= KEPT + 1


def test_what_has_no_text_changes_nothing_of_what_was_told() -> None:
    """Also behind a character of four bytes, of which the tail keeps three."""
    tokenizer = train_tokenizer("byte", ["a"], 0)
    special = min(tokenizer.specials)
    stream = Stream(tokenizer)
    told = [stream.add(ids) for ids in (tokenizer.encode("a🙂"), [], [special], tokenizer.encode("b"))]
    assert "".join(told) + stream.end() == "a🙂b"
