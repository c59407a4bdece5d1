"""SentencePiece files give the ids of their own library and of transformers; damaged ones are refused in one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.interop.sentencepiece import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    Damaged,
    fields,
    read_model,
    read_pair,
    read_public_tokenizer,
    to_tokenizer,
)
from regard.text.tokenizer import Tokenizer
from tests.interop.sentencepiece_files import SPECIALS, WORDS, integer, marian_folder, message, model, piece, t5_folder, varint
from tests.model.position.schemes import shared_data

ROOT = Path(__file__).parents[2]


def opened(path: Path, content: bytes) -> Tokenizer:
    path.write_bytes(content)
    return Tokenizer(to_tokenizer(read_model(path), str(path)))


# --- what is read ---------------------------------------------------------------------------------------------------------


def test_a_unigram_model_takes_the_best_sum_of_scores(tmp_path: Path) -> None:
    found = opened(tmp_path / "a.model", model())
    assert found.tokens(found.encode("the cats")) == ["▁the", "▁cat", "s"]
    assert found.tokens(found.encode("  the   hat. ")) == ["▁the", "▁", "h", "at", "."]
    assert found.encode("zebra")[1] == found.roles.unk
    assert found.decode(found.encode("the cat sat.")) == "the cat sat."
    assert found.roles.eos == 2


def test_a_bpe_model_merges_by_score(tmp_path: Path) -> None:
    letters = [(letter, -20.0 - n, NORMAL) for n, letter in enumerate("▁acht")]
    made = [("at", -1.0, NORMAL), ("▁c", -2.0, NORMAL), ("▁cat", -3.0, NORMAL), ("th", -4.0, NORMAL)]
    found = opened(tmp_path / "a.model", model([*SPECIALS, *made, *letters], BPE))
    assert found.tokens(found.encode("cat hath")) == ["▁cat", "▁", "h", "at", "h"]  # of ath, at comes before th


def test_bytes_stand_in_for_what_is_not_spelt(tmp_path: Path) -> None:
    rows = [*SPECIALS, *[(f"<0x{n:02X}>", 0.0, BYTE) for n in range(256)], *WORDS]
    content = b"".join(piece(*row) for row in rows) + message(2, integer(3, 1) + integer(35, 1)) + message(3, integer(3, 1))
    found = opened(tmp_path / "a.model", content)
    assert [f"<0x{n:02X}>" for n in "é".encode()] == [found.raw.id_to_token(i) for i in found.encode("é")[1:]]
    assert found.decode(found.encode("the é cat")) == "the é cat"


def test_t5s_file_has_its_sentinels_behind_it(tmp_path: Path) -> None:
    found = read_public_tokenizer(t5_folder(tmp_path / "t5"))
    assert (found.roles.pad, found.roles.eos, found.roles.unk) == (0, 1, 2)
    assert not set(found.encode("</s> <extra_id_0>")) & {1, len(found) - 1}  # names are text
    assert len(found) == 3 + len(WORDS) + 100
    assert found.sentinels()[0] == len(found) - 1
    assert len(found.sentinels()) == 100
    assert len(read_public_tokenizer(t5_folder(tmp_path / "few", extra_ids=3)).sentinels()) == 3


def test_marians_pair_has_the_ids_of_one_vocabulary(tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "marian")
    source, target = read_pair(folder)
    ids = json.loads((folder / "vocab.json").read_text("utf-8"))
    assert source.encode("the cat") == [ids["▁the"], ids["▁cat"]]
    assert target.encode("le chat") == [ids["▁le"], ids["▁chat"]]
    assert source.encode("le")[0] == ids["▁"]  # a piece of the other language is not chosen
    assert target.decode([ids["▁the"], ids["▁chat"]]) == "the chat"  # but it can be written
    assert (source.roles.eos, source.roles.unk, source.roles.pad) == (0, 1, len(ids) - 1)
    assert source.encode(">>fra<< the cat") == [ids[">>fra<<"], ids["▁the"], ids["▁cat"]]


def test_a_tokenizer_of_a_file_is_saved_and_opened_again(tmp_path: Path) -> None:
    found = read_pair(marian_folder(tmp_path / "marian")).source
    found.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json", foreign=True)
    assert again.encode("the cats. le") == found.encode("the cats. le")


# --- real files and other people's readers ----------------------------------------------------------------------------------


def test_the_real_marian_pair_gives_the_ids_of_transformers() -> None:
    folder = shared_data("tokenizers/opus-mt-en-mg")
    source, target = read_pair(folder)
    for row in json.loads((folder / "expected_ids.json").read_text("utf-8")):
        assert [*source.encode(row["text"]), source.roles.eos] == row["ids"]
    assert len(source) == len(target) == 54_688
    assert target.decode(target.encode("Ny trano dia tsara.")) == "Ny trano dia tsara."


def test_the_real_marian_pair_cuts_as_the_library_does() -> None:
    library: Any = pytest.importorskip("sentencepiece")
    folder = shared_data("tokenizers/opus-mt-en-mg")
    ids = json.loads((folder / "vocab.json").read_text("utf-8"))
    texts = (ROOT / "docs" / "tour.md").read_text("utf-8").splitlines()
    for name, found in zip(("source.spm", "target.spm"), read_pair(folder)):
        theirs = library.SentencePieceProcessor(model_file=str(folder / name))
        spelt = [(text, theirs.encode(text, out_type=str)) for text in texts]
        known = [(text, pieces) for text, pieces in spelt if all(piece in ids for piece in pieces)]
        assert len(known) > 100
        assert [found.encode(text) for text, _ in known] == [[ids[piece] for piece in pieces] for _, pieces in known]


CHOICES: list[dict[str, Any]] = [
    {},
    {"byte_fallback": True},
    {"add_dummy_prefix": False},
    {"remove_extra_whitespaces": False},
    {"split_by_whitespace": False},
    {"user_defined_symbols": ["<a>", "€"]},
    {"normalization_rule_name": "identity"},
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_models_trained_by_the_library(kind: str, choice: dict[str, Any], tmp_path: Path) -> None:
    """Of two ways with the same score, each reader may take another; BPE with user-defined symbols keeps spaces at the end."""
    library: Any = pytest.importorskip("sentencepiece")
    texts = [line for name in ("tour.md", "decoding.md") for line in (ROOT / "docs" / name).read_text("utf-8").splitlines()]
    texts += [
        f"  two  spaces{'' if kind == 'bpe' else ' '}",
        "Ünïcödé ﬁ ½ 日本 x",
        "tab\there",
        "</s> <unk> <pad> ab",
        "a <a> b€c",
    ]
    (tmp_path / "text").write_text("\n".join(texts), "utf-8")
    prefix = str(tmp_path / "made")
    settings = {"model_prefix": prefix, "vocab_size": 600, "model_type": kind, "minloglevel": 2, "num_threads": 1}
    library.SentencePieceTrainer.train(input=str(tmp_path / "text"), **settings, **choice)
    theirs = library.SentencePieceProcessor(model_file=f"{prefix}.model")
    found = Tokenizer(to_tokenizer(read_model(Path(f"{prefix}.model")), "made"))

    def worth(ids: list[int]) -> float:
        return sum(theirs.get_score(i) for i in ids) if kind == "unigram" else 0.0

    for text in texts:
        expected, ours = theirs.encode(text), found.encode(text)
        assert ours == expected or (kind == "unigram" and worth(ours) == pytest.approx(worth(expected), abs=1e-3)), text
        if theirs.unk_id() not in expected:
            assert found.decode(expected) == theirs.decode(expected)


def test_t5s_own_file(tmp_path: Path) -> None:
    """Its tokenizer.json has the sentinels that span corruption needs, in their order."""
    import gzip

    packed = shared_data("tokenizers/t5_unigram") / "tokenizer.json.gz"
    (tmp_path / "tokenizer.json").write_bytes(gzip.decompress(packed.read_bytes()))
    found = read_public_tokenizer(tmp_path)
    assert found.sentinels() == list(range(32_099, 31_999, -1))
    assert (found.roles.pad, found.roles.eos, found.roles.unk) == (0, 1, 2)
    assert found.tokens(found.encode("The house is wonderful.")) == ["▁The", "▁house", "▁is", "▁wonderful", "."]


# --- damage and hostility -----------------------------------------------------------------------------------------------------

DEEP = message(1, b"\x0a\xff\xff\xff\xff\x0f")
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "there are no pieces in it"),
    "text": (b"the cat sat on the mat, and more text", "no SentencePiece model"),
    "half": (model()[:103], "is longer than what is left"),
    "a length of four gigabytes": (b"\x0a\xff\xff\xff\xff\x0f", "is longer than what is left"),
    "a length of four gigabytes inside": (DEEP, "is longer than what is left"),
    "a number that does not end": (b"\x80" * 40, "the number at byte 0 does not end"),
    "a group": (b"\x0b\x0c", "of an unknown type"),
    "no unknown": (model([("a", 0.0, NORMAL)]), "0 pieces for unknown text"),
    "two unknown": (model([("a", 0.0, UNKNOWN), ("b", 0.0, UNKNOWN)]), "2 pieces for unknown text"),
    "nan": (model([*SPECIALS, ("a", float("nan"), NORMAL)]), "the score of piece 3 is nan"),
    "infinity": (model([*SPECIALS, ("a", float("inf"), NORMAL)]), "the score of piece 3 is inf"),
    "twice": (model([*SPECIALS, ("a", 0.0, NORMAL), ("a", 0.0, NORMAL)]), "has the piece 'a' twice"),
    "no text": (model([*SPECIALS, ("", 0.0, NORMAL)]), "piece 3 has 0 characters"),
    "a long piece": (model([*SPECIALS, ("a" * 70_000, 0.0, NORMAL)]), "piece 3 has 70,000 characters"),
    "no utf-8": (message(1, message(1, b"\xff\xfe")) + model(), "no SentencePiece model that can be read"),
    "words": (model(kind=3), "of the kind word; unigram and BPE are read"),
    "another kind": (model(kind=77), "of the kind unknown (77)"),
    "a charsmap that is none": (model(more=message(3, message(2, b"\x08\0\0\0\1\2"))), "precompiled_charsmap"),
    "spaces behind words": (model(more=message(2, integer(24, 1))), "spaces behind words"),
    "spaces kept": (model(more=message(3, integer(5, 0))), "keeps spaces as they are"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    content, said = BAD[name]
    (tmp_path / "spiece.model").write_bytes(content)
    with pytest.raises(UserError) as refused:
        read_public_tokenizer(tmp_path)
    assert said in str(refused.value)
    assert "spiece.model" in str(refused.value)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_else(data: bytes) -> None:
    try:
        found = list(fields(data))
    except Damaged:
        return
    assert all(isinstance(value, int) or len(value) <= len(data) for _, value in found)


@given(st.integers(0, len(model()) - 1), st.integers(0, 255))
def test_one_changed_byte_is_read_or_refused(place: int, byte: int) -> None:
    from tempfile import TemporaryDirectory

    content = bytearray(model())
    content[place] = byte
    with TemporaryDirectory() as kept:
        path = Path(kept) / "a.model"
        with suppress(UserError):
            opened(path, bytes(content)).encode("the cats.")


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _vocab(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        found = json.loads((folder / "vocab.json").read_text("utf-8"))
        (folder / "vocab.json").write_text(json.dumps(change(found)), "utf-8")

    return write


PAIRS: list[tuple[Callable[[Path], None], str]] = [
    (_without("source.spm"), "has no source.spm"),
    (_without("target.spm"), "has no target.spm"),
    (_without("vocab.json"), "has no vocab.json"),
    (_vocab(lambda v: {k: n for k, n in v.items() if k != "</s>"}), "their ids are not 0 to"),
    (_vocab(lambda v: {k: n + 1 for k, n in v.items()}), "their ids are not 0 to"),
    (_vocab(lambda v: {k.replace("<pad>", "<pat>"): n for k, n in v.items()}), "has no piece <pad>"),
    (_vocab(lambda v: {k if k[0] in "<>" else f"x{k}": n for k, n in v.items()}), "do not belong together"),
    (_vocab(lambda v: list(v)), "has no vocabulary"),
    (_vocab(lambda v: dict.fromkeys(v, 0)), "has the id 0 twice"),
    (_vocab(lambda v: {k: str(n) for k, n in v.items()}), "gives the piece"),
    (lambda folder: (folder / "source.spm").write_bytes(model(kind=BPE)) and None, "of the kind BPE"),
    (lambda folder: (folder / "source.spm").write_bytes(b"\x0a\xff") and None, "source.spm is no SentencePiece model"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), PAIRS, ids=[said for _, said in PAIRS])
def test_a_pair_that_is_none(change: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "marian")
    change(folder)
    with pytest.raises(UserError, match=said):
        read_pair(folder)


def test_a_pair_is_no_single_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds two tokenizers, source.spm and target.spm"):
        read_public_tokenizer(marian_folder(tmp_path / "marian"))


@pytest.mark.parametrize("count", [-1, 1.5, "100", True, 10**9])
def test_extra_ids_that_are_no_count(count: object, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="extra_ids is"):
        read_public_tokenizer(t5_folder(tmp_path / "t5", extra_ids=count))


def test_files_whose_ids_are_shifted_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="whose ids differ from the file's"):
        read_public_tokenizer(t5_folder(tmp_path / "mbart", tokenizer_class="MBartTokenizer"))


def test_pipes_and_links_are_not_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "spiece.model")
    with pytest.raises(UserError, match="is a pipe"):
        read_public_tokenizer(tmp_path)
    (tmp_path / "spiece.model").unlink()
    (tmp_path / "spiece.model").symlink_to("/etc/hostname")
    with pytest.raises(UserError, match="is a link that leads out"):
        read_public_tokenizer(tmp_path)


def test_a_file_of_many_pieces_is_refused_before_it_takes_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.interop.sentencepiece.MOST_PIECES", 10)
    (tmp_path / "a.model").write_bytes(model())
    with pytest.raises(UserError, match="more than 10 pieces"):
        read_model(tmp_path / "a.model")


@given(st.integers(0, 2**63))
def test_numbers_are_read_as_they_are_written(value: int) -> None:
    assert list(fields(varint(5 << 3) + varint(value))) == [(5, value)]
    assert CONTROL == 3
