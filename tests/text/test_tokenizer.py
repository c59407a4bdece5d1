"""Round trips for every kind, the published algorithms as oracles, files that other programs read, and mistakes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Literal, get_type_hints

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.text.config import KINDS, Kind, TextConfig
from regard.text.specials import EOS, PAD, SOS, SPECIALS, UNK, Roles
from regard.text.tokenizer import Tokenizer, train_tokenizer
from tests.text.samples import SIZES, TEXTS, any_text, mixed_lines, seen_text, trained

ONE_SPACE: tuple[Kind, ...] = ("bpe", "unigram")
COMPOSED: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind != "byte-bpe")

examples = settings(max_examples=60)


def normal(text: str) -> str:
    """What the page on pieces promises, by other means than `tokenizers`."""
    return " ".join(unicodedata.normalize("NFC", text).split())


# round trips ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ONE_SPACE)
@given(text=seen_text)
@examples
def test_seen_characters_come_back_and_are_never_unknown(kind: Kind, text: str) -> None:
    ids = trained(kind).encode(text)
    assert trained(kind).decode(ids) == normal(text)
    assert UNK not in ids


@given(words=st.lists(st.sampled_from(sorted(set(re.findall(r"\w+|[^\w\s]", " ".join(TEXTS))))), max_size=12))
@examples
def test_words_come_back_if_they_are_known(words: list[str]) -> None:
    tokenizer = train_tokenizer("word", [*TEXTS, *words], 400)
    text = " ".join(words)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(text=seen_text)
@examples
def test_characters_come_back_with_every_space(text: str) -> None:
    ids = trained("character").encode(text)
    assert trained("character").decode(ids) == text
    assert len(ids) == len(text)


@given(text=any_text)
@examples
def test_bytes_take_any_text_at_all(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    ids = trained("byte").encode(text)
    assert ids == [4 + byte for byte in text.encode()]
    assert trained("byte").decode(ids) == text


@given(text=st.one_of(any_text, st.text(alphabet=" \n\r\t'sé\u0301<>|aZ9日", max_size=40)))
@examples
def test_byte_bpe_gives_back_the_very_same_text(text: str) -> None:
    ids = trained("byte-bpe").encode(text)
    assert trained("byte-bpe").decode(ids) == text
    assert not set(ids) & set(range(len(SPECIALS)))


def test_byte_bpe_gives_back_lines_of_every_script() -> None:
    lines = mixed_lines(500, seed=3)
    assert trained("byte-bpe").decode_batch(trained("byte-bpe").encode_batch(lines)) == lines


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(st.one_of(any_text, st.sampled_from(SPECIALS), seen_text), max_size=5))
@settings(max_examples=25)
def test_any_text_encodes_the_same_alone_and_in_a_batch(kind: Kind, texts: list[str]) -> None:
    tokenizer = trained(kind)
    batch = tokenizer.encode_batch(texts)
    assert batch == [tokenizer.encode(text) for text in texts]
    assert not {PAD, SOS, EOS} & {i for ids in batch for i in ids}
    assert tokenizer.decode_batch(batch) == [tokenizer.decode(ids) for ids in batch]
    assert all(len(tokenizer.tokens(ids)) == len(ids) for ids in batch)


@pytest.mark.parametrize("kind", KINDS)
def test_specials_written_by_a_person_are_text(kind: Kind) -> None:
    texts = ["<eos> <pad><sos>", "a<unk>b <eos>"]  # "<unk>" between spaces is a word of prepared text, but these are not
    tokenizer = train_tokenizer(kind, [*TEXTS, *texts * 50], SIZES[kind])
    for text in texts:
        ids = tokenizer.encode(text)
        assert ids
        assert not {PAD, SOS, EOS, UNK} & set(ids)
        assert tokenizer.decode(ids).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids_are_left_out_of_text_and_shown_to_people(kind: Kind) -> None:
    tokenizer = trained(kind)
    text = "la rue" if kind == "spaced" else "elle dort"
    ids = tokenizer.encode(text)
    assert tokenizer.decode([SOS, *ids, EOS, PAD, PAD]) == text
    assert tokenizer.tokens([SOS, EOS, PAD, UNK]) == ["<sos>", "<eos>", "<pad>", "<unk>"]


# what the pieces are ----------------------------------------------------------------------------------------------
def test_words_part_from_punctuation() -> None:
    tokenizer = trained("word")
    ids = tokenizer.encode("parce qu'il dort.")
    assert tokenizer.tokens(ids) == ["▁parce", "▁qu", "'", "il", "▁dort", "."]
    assert tokenizer.decode(ids) == "parce qu'il dort."


def test_bpe_merges_as_in_the_paper() -> None:
    """Sennrich et al. 2016, algorithm 1: low x 5, lower x 2, newest x 6, widest x 3 gives e s, es t, ..., l o, lo w."""
    texts = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
    tokenizer = train_tokenizer("bpe", texts, 40)
    merges = [tuple(merge) for merge in json.loads(tokenizer.raw.to_str())["model"]["merges"]]
    assert merges[:2] == [("e", "s"), ("es", "t")]
    assert tokenizer.tokens(tokenizer.encode("lowest")) == ["▁low", "est"]


def test_bpe_finds_undo_in_other_words() -> None:
    texts = ["redo overdo outdo"] * 20 + ["unhappy unfair unkind unwell"] * 20 + ["do it"] * 5
    tokenizer = train_tokenizer("bpe", texts, 34)
    assert tokenizer.tokens(tokenizer.encode("undo")) == ["▁un", "do"]


def test_byte_bpe_learns_what_gpt2s_makers_library_learns() -> None:
    theirs = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    theirs.train_from_iterator(TEXTS, vocab_size=340, min_frequency=2, special_tokens=list(SPECIALS), show_progress=False)
    ours = train_tokenizer("byte-bpe", TEXTS, 340, minimum_count=2)
    assert ours.raw.get_vocab() == theirs.get_vocab()
    assert len(ours) == 340 == len(SPECIALS) + 256 + len(json.loads(ours.raw.to_str())["model"]["merges"])
    for line in [*TEXTS, *mixed_lines(200, seed=4)]:
        assert ours.encode(line) == theirs.encode(line).ids


@given(word=st.text(alphabet=sorted(set("".join(TEXTS)) - set(" ,.;?!'()<>«»-")), min_size=1, max_size=12))
@examples
def test_wordpiece_takes_the_longest_piece_first(word: str) -> None:
    vocabulary = trained("wordpiece").raw.get_vocab()
    expected, start = [], 0
    while start < len(word):
        candidates = ("##" * (start > 0) + word[start:end] for end in range(len(word), start, -1))
        piece = next((piece for piece in candidates if piece in vocabulary), None)
        if piece is None:
            expected = ["<unk>"]
            break
        expected.append(piece)
        start += len(piece.removeprefix("##"))
    assert trained("wordpiece").tokens(trained("wordpiece").encode(word)) == expected


@given(word=st.text(alphabet=sorted(set("animalstreepcqu")), min_size=1, max_size=8))
@examples
def test_unigram_takes_the_likeliest_pieces(word: str) -> None:
    scores = dict(json.loads(trained("unigram").raw.to_str())["model"]["vocab"])

    def best(text: str) -> float:
        if not text:
            return 0.0
        ends = range(1, len(text) + 1)
        return max((scores[text[:e]] + best(text[e:]) for e in ends if text[:e] in scores), default=float("-inf"))

    pieces = trained("unigram").tokens(trained("unigram").encode(word))
    assert sum(scores[piece] for piece in pieces) == pytest.approx(best("▁" + word))


def test_pieces_are_readable() -> None:
    character, byte = trained("character"), trained("byte")
    assert character.tokens(character.encode("è où\n")) == ["<unk>", "▁", "o", "ù", "<unk>"]
    assert byte.tokens(byte.encode("a é\n")) == ["a", "▁", "<0xC3>", "<0xA9>", "\\n"]
    byte_bpe = train_tokenizer("byte-bpe", ["la rue était \u3042 \u3044 \u3046"] * 9, 300)
    tokens = byte_bpe.tokens([SOS, *byte_bpe.encode("la rue était \u304b\n")])
    assert tokens == ["<sos>", "la", "▁rue", "▁était", "▁<0xE3><0x81>", "<0x8B>", "\\n"]


def test_a_broken_byte_spoils_only_itself() -> None:
    byte = trained("byte")
    assert byte.decode([4 + 0xC3, *byte.encode("abc")]) == "\ufffdabc"


def test_letters_are_composed_and_lowercased_if_asked() -> None:
    for kind in COMPOSED:
        tokenizer = train_tokenizer(kind, TEXTS, SIZES[kind], lowercase=True)
        assert tokenizer.encode("E\u0301TAIT") == tokenizer.encode("était")
        assert trained(kind).encode("e\u0301tait") == trained(kind).encode("était") != trained(kind).encode("Était")


def test_byte_bpe_lowercases_if_asked_but_never_composes() -> None:
    tokenizer = train_tokenizer("byte-bpe", TEXTS, 300, lowercase=True)
    assert tokenizer.decode(tokenizer.encode(" E\u0301TAIT\n")) == " e\u0301tait\n"


def test_size_is_an_upper_bound_and_the_frequent_stay() -> None:
    for kind in ("bpe", "wordpiece", "unigram"):
        assert len(train_tokenizer(kind, TEXTS, 120)) <= 120
    words = train_tokenizer("word", ["a a a b b c"], 6)
    assert len(words) == 6
    assert words.tokens([4, 5]) == ["▁a", "▁b"]
    assert len(train_tokenizer("word", ["a a a b b c"], 100, minimum_count=2)) == 6
    assert len(train_tokenizer("character", ["aaabbc"], 100, minimum_count=3)) == 5
    assert len(trained("byte")) == 260 == len(train_tokenizer("byte-bpe", ["abab"], 260))
    assert len(train_tokenizer("byte-bpe", ["ab ab"], 400)) == 261 + 1  # "ab" and "Ġab" are all there is to merge


@pytest.mark.parametrize("kind", KINDS)
def test_every_vocabulary_made_here_has_the_same_roles(kind: Kind) -> None:
    asking_for_more = train_tokenizer(kind, [*TEXTS, *["[CLS] <mask> [SEP] </s> <|endoftext|>"] * 50], SIZES[kind])
    for tokenizer in (trained(kind), asking_for_more):
        assert tokenizer.roles == Roles(pad=PAD, sos=SOS, eos=EOS, unk=UNK, mask=None, cls=None, sep=None)
        assert tokenizer.specials == {PAD, SOS, EOS, UNK}


# the same twice, here and elsewhere -------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_gives_the_same_tokenizer(kind: Kind) -> None:
    ties = [" ".join(a + b for a in ("ka", "to", "mi", "su", "ne", "ri") for b in ("la", "po", "du", "ge"))] * 2
    for texts in (TEXTS, ties):
        assert len({train_tokenizer(kind, texts, SIZES[kind]).fingerprint() for _ in range(4)}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_is_one_that_tokenizers_reads(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained(kind).save(path)
    ours, raw = Tokenizer.load(path), tokenizers.Tokenizer.from_file(str(path))
    assert ours.fingerprint() == trained(kind).fingerprint()
    assert ours.fingerprint() != trained("bpe" if kind == "word" else "word").fingerprint()
    for text in [*TEXTS, "unbekanntes Wort ☃", ""]:
        ids = raw.encode(text, add_special_tokens=False).ids
        assert ours.encode(text) == trained(kind).encode(text) == ids
        assert ours.decode(ids) == raw.decode(ids)
    assert not {PAD, SOS, EOS} & set(ours.encode("<eos><pad><sos>"))


def test_no_warning_after_a_fork_and_the_same_everywhere() -> None:
    """tokenizers 0.22 warns if its threads were used before a fork; 0.23 does not, so ask that they were not used."""
    program = (
        "import os, sys\n"
        "from regard.text.tokenizer import train_tokenizer\n"
        f"tokenizer = train_tokenizer('unigram', {TEXTS!r}, 150)\n"
        "tokenizer.encode_batch(['elle dort'] * 100)\n"
        "child = os.fork()\n"
        "child and os.waitpid(child, 0)\n"
        "encoded = tokenizer.encode_batch(['elle dort'] * 100)\n"
        "print(len(encoded), tokenizer.fingerprint(), os.environ.get('TOKENIZERS_PARALLELISM'))\n"
    )
    clean = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=clean, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"100 {trained('unigram').fingerprint()} false"] * 2


# mistakes ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "texts", "size", "minimum_count", "sentence"),
    [
        ("bpee", TEXTS, 100, 1, r"'bpee'.*did you mean 'bpe'\?"),
        ("bpe", [], 100, 1, r"no text.*data\.train"),
        ("unigram", ["", "  \n"], 100, 1, r"no text"),
        ("unigram", ["▁", "▁ ▁"], 100, 1, r"no text"),
        ("wordpiece", ["\x01\x02"], 100, 1, r"no text"),
        ("word", TEXTS, 100, 99, r"text\.minimum_count=99 times"),
        ("word", TEXTS, 4, 1, r"size=4 .*5 or more"),
        ("word", TEXTS, 100, 0, r"minimum_count=0 .*1 or more"),
        ("bpe", ["abc abd"], 8, 1, r"size=8 .* 4 specials \+ 5 characters = 9\. Set text\.size=9"),
        ("unigram", ["abc abd"], 8, 1, r"4 specials \+ 5 characters = 9\. Set text\.size=9"),
        ("wordpiece", ["abc abd"], 8, 1, r"4 specials \+ 4 characters \+ 3 continuations = 11\. Set text\.size=11"),
        ("unigram", TEXTS, 150, 2, r"minimum_count=2 .*Leave it at 1"),
        ("byte", TEXTS, 0, 2, r"minimum_count=2 .*Leave it at 1"),
        ("byte", TEXTS, 8000, 1, r"260 pieces, but text\.size is 8000\. Set text\.size=0"),
        ("byte-bpe", TEXTS, 259, 1, r"size=259 .*4 specials \+ 256 bytes = 260"),
        ("byte-bpe", [" \n"], 300, 1, r"no text"),
        ("bpe", ["fine", "half \ud83d"], 100, 1, r"Text 2 .*lone surrogate"),
    ],
)
def test_what_cannot_be_trained(kind: Kind, texts: list[str], size: int, minimum_count: int, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        train_tokenizer(kind, texts, size, minimum_count=minimum_count)


@pytest.mark.parametrize(("kind", "least"), [("bpe", 9), ("unigram", 9), ("wordpiece", 11)])
def test_the_size_that_the_sentence_names_is_enough(kind: Kind, least: int) -> None:
    for size in range(least, least + 8):
        tokenizer = train_tokenizer(kind, ["abc abd"], size)
        assert least <= len(tokenizer) <= size
        assert tokenizer.decode(tokenizer.encode("abd abc")) == "abd abc"


def test_what_cannot_be_encoded_or_shown() -> None:
    with pytest.raises(UserError, match=r"Text 2 .*lone surrogate"):
        trained("bpe").encode_batch(["fine", "half \ud83d"])
    with pytest.raises(UserError, match=r"Id 260 .*from 0 to 259"):
        trained("byte").tokens([260])
    with pytest.raises(UserError, match=r"Id -1 "):
        trained("byte").tokens([-1])


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for missing in (path, tmp_path):
        with pytest.raises(UserError, match=f"no tokenizer at {re.escape(str(missing))}"):
            Tokenizer.load(missing)
    trained("bpe").save(path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"{}", b"", b"\xff\xfe"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"tokenizer\.json .*opy it again.*train again"):
            Tokenizer.load(path)
    path.write_bytes(whole.replace(b"<eos>", b"</s>"))
    with pytest.raises(UserError, match=r"<eos>.*have 0, 1, None, 3"):
        Tokenizer.load(path)
    assert Tokenizer.load(path, foreign=True).roles == Roles(pad=0, sos=1, eos=2, unk=3)


def test_the_recipe_section_names_the_kinds_that_can_be_trained() -> None:
    assert get_type_hints(TextConfig)["tokenizer"] == Literal[Kind, "public"]
    assert TextConfig(tokenizer="byte-bpe", size=300).tokenizer in KINDS
    with pytest.raises(UserError, match=r"size=200 is too small for byte-bpe"):
        TextConfig(tokenizer="byte-bpe", size=200)
    assert train_tokenizer(TextConfig().tokenizer, TEXTS, TextConfig().size).decode([]) == ""


def test_words_as_given_are_cut_at_white_space_alone() -> None:
    """As language modelling corpora are counted: every word, "<unk>" among them, and every line end."""
    corpus = " \n = Robert <unk> = \n \n He is an actor @-@ singer .\n"
    tokenizer = train_tokenizer("spaced", [corpus], 100)
    expected = [token for line in corpus.splitlines() for token in (*line.split(), "\n")]
    ids = tokenizer.encode(corpus)
    assert [tokenizer.raw.id_to_token(i) for i in ids] == expected
    assert ids[expected.index("<unk>")] == UNK
    assert tokenizer.encode("zebra") == [UNK]
    assert tokenizer.decode(tokenizer.encode("an actor @-@ singer")) == "an actor @-@ singer"
