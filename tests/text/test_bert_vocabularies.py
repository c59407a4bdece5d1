"""BERT's vocabularies, cased or not, with accents and CJK: the ids are those of transformers and tokenizers on any text.

From a folder that has vocab.txt alone and from one that has tokenizer.json; small ones made here, and BERT's own if REGARD_DATA
says where they are.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import tokenizers
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.pretrained import read_pretrained
from regard.text.tokenizer import Tokenizer
from tests.text.samples import any_text, mixed_lines
from tests.text.test_pretrained import bert

SETTINGS: dict[str, dict[str, Any]] = {
    "uncased": {"do_lower_case": True},
    "cased": {"do_lower_case": False},
    "uncased with accents": {"do_lower_case": True, "strip_accents": False},
    "cased without accents": {"do_lower_case": False, "strip_accents": True},
    "cjk as words": {"do_lower_case": True, "tokenize_chinese_chars": False},
}
kinds = pytest.mark.parametrize("kind", SETTINGS)
ACCENTS, CJK = "éèüßøñçÅŁİıſẞe\u0301o\u0308\u0327", "漢字東京の銀行日本語한국어𠀀㐀豈"
CONTROL = " \t\n\r\u00a0\u3000\u200b\u200d\ufeff\ufffd\x00\x7f\x85\u2028"
texts = st.one_of(
    any_text,
    st.text(alphabet=f"theSTREETlaRUE.,'-#[]{ACCENTS}{CJK}{CONTROL}", max_size=60),
    st.lists(
        st.sampled_from(["the", "street", "##s", "étroite", "Straße", "漢字", "n'a", " ", "  ", "…", "x" * 101]), max_size=12
    ).map(" ".join),
)
Encode = Callable[[str], list[int]]
_kept = TemporaryDirectory(prefix="regard-tests-")


@cache
def vocabulary_folder(kind: str) -> Path:
    """vocab.txt and tokenizer_config.json, as BERT was first published; of CJK some characters, with and without ##."""
    folder = Path(_kept.name) / kind.replace(" ", "-")
    folder.mkdir()
    more = [piece for letter in "漢字東京銀行日本éÅü" for piece in (letter, f"##{letter}")]
    path = bert(folder) / "vocab.txt"
    path.write_text(
        "\n".join([*path.read_text("utf-8").splitlines(), *(p for p in more if p not in path.read_text("utf-8").split())]) + "\n"
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS[kind]))
    return folder


@cache
def json_folder(kind: str) -> Path:
    """tokenizer.json, as transformers writes it from the former."""
    folder = Path(_kept.name) / f"{kind.replace(' ', '-')}-json"
    _theirs(kind).save_pretrained(folder)
    (folder / "vocab.txt").unlink(missing_ok=True)
    assert (folder / "tokenizer.json").is_file()
    return folder


@cache
def _theirs(kind: str) -> Any:
    return transformers.BertTokenizer.from_pretrained(vocabulary_folder(kind), **SETTINGS[kind])


@cache
def opened(kind: str, files: str) -> Tokenizer:
    return read_pretrained((vocabulary_folder if files == "vocab.txt" else json_folder)(kind))


@kinds
@pytest.mark.parametrize("files", ["vocab.txt", "tokenizer.json"])
@given(text=texts)
@settings(max_examples=40)
def test_ids_are_theirs_on_any_text(kind: str, files: str, text: str) -> None:
    expected = _theirs(kind)(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert opened(kind, files).encode(text) == expected


@kinds
@given(text=texts)
@settings(max_examples=20)
def test_and_those_of_the_library_beneath(kind: str, text: str) -> None:
    chosen = SETTINGS[kind]
    oracle = tokenizers.BertWordPieceTokenizer(
        str(vocabulary_folder(kind) / "vocab.txt"),
        lowercase=chosen.get("do_lower_case", True),
        strip_accents=chosen.get("strip_accents"),
        handle_chinese_chars=chosen.get("tokenize_chinese_chars", True),
    )
    oracle._tokenizer.encode_special_tokens = True
    assert opened(kind, "vocab.txt").encode(text) == oracle.encode(text, add_special_tokens=False).ids


def test_the_kinds_tell_texts_apart() -> None:
    """Else the tests above would compare one tokenizer five times."""
    found = {kind: opened(kind, "vocab.txt") for kind in SETTINGS}
    ids = {kind: tokenizer.encode("the Street était 漢字") for kind, tokenizer in found.items()}
    assert len({tuple(row) for row in ids.values()}) == len(SETTINGS)


# BERT's own -------------------------------------------------------------------------------------------------------------
def unpacked(name: str, file: str, folder: Path) -> Path:
    data = os.environ.get("REGARD_DATA")
    if not data:
        pytest.skip("set REGARD_DATA to a folder with tokenizers/ in it")
    (folder / file).write_bytes(gzip.decompress((Path(data) / "tokenizers" / name / f"{file}.gz").read_bytes()))
    return folder


PUBLISHED = [("bert_uncased_wordpiece", "vocab.txt", True), ("bert_cased_wordpiece", "tokenizer.json", False)]


@pytest.mark.parametrize(("name", "file", "lowercase"), PUBLISHED)
def test_berts_own_vocabularies_on_mixed_lines(name: str, file: str, lowercase: bool, tmp_path: Path) -> None:
    folder = unpacked(name, file, tmp_path)
    ours = read_pretrained(folder)
    if file == "vocab.txt":
        theirs = transformers.BertTokenizer.from_pretrained(folder, do_lower_case=lowercase)
        (tmp_path / "again").mkdir()
        theirs.save_pretrained(tmp_path / "again")  # and the same as a tokenizer.json
        others = [read_pretrained(tmp_path / "again")]
    else:
        theirs, others = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / file)), []
    lines = [*mixed_lines(1500, seed=8), ACCENTS, CJK, f"a{CONTROL}b", "The Naïve Café in 東京", "Ünïcödé ſtraße İstanbul"]
    expected = [
        theirs(line, add_special_tokens=False, split_special_tokens=True, truncation=False)["input_ids"] for line in lines
    ]
    for tokenizer in (ours, *others):
        assert tokenizer.encode_batch(lines) == expected
    assert (ours.encode("Street") == ours.encode("street")) == lowercase
