"""A tokenizer.json that would take all memory, all time or end the process is refused before the library has it."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from regard.core.errors import UserError
from regard.text import tokenizer_check
from regard.text.config import KINDS
from regard.text.pretrained import read_pretrained
from regard.text.tokenizer import Tokenizer, catch_panics
from regard.text.tokenizer_check import check_tokenizer, read_checked
from tests.families.public_folder import TOKENIZER
from tests.text.samples import trained
from tests.text.test_pretrained import FOLDERS

REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
FIXED = {"strategy": {"Fixed": 1_000_000_000}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}


def sequence(kind: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", kind: list(steps)}


def charsmap(content: bytes) -> dict[str, Any]:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


def trie(units: dict[int, int]) -> bytes:
    """A double array of 256 units, all 0 but these, with its size before it."""
    return struct.pack("<257I", 1024, *(units.get(n, 0) for n in range(256)))


X = 120 | 1 << 8 | 1 << 10  # a unit with the label x, whose leaf is the unit behind it


def test_a_charsmap_that_is_one_is_used() -> None:
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "y": 1}, unk_token="a"))
    mapped = charsmap(trie({120: X, 121: 1 << 31}) + b"y\0")
    content = check_tokenizer(json.loads(raw.to_str()) | {"normalizer": mapped}, "tokenizer.json")
    assert Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(content))).encode("x") == [1]


def written(folder: Path, **changes: Any) -> Path:
    """A folder whose tokenizer.json has these parts instead of its own; a function changes what is there."""
    found = json.loads(TOKENIZER)
    for key, value in changes.items():
        found[key] = value(found[key]) if callable(value) else value
    (folder / "tokenizer.json").write_text(json.dumps(found))
    return folder


def test_nothing_is_filled_up_or_cut_while_it_is_opened(tmp_path: Path) -> None:
    """A padding to a billion pieces took 4 GB before it was taken away."""
    cut = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    found = read_pretrained(written(tmp_path, padding=FIXED, truncation=cut))
    assert len(found.encode("the animal did not")) > 1


@pytest.mark.parametrize("write", FOLDERS, ids=lambda write: write.__name__)
def test_public_tokenizers_pass_unchanged(write: Callable[[Path], Path], tmp_path: Path) -> None:
    raw = read_pretrained(write(tmp_path)).raw
    raw.save(str(tmp_path / "tokenizer.json"))
    assert tokenizers.Tokenizer.from_str(read_checked(tmp_path / "tokenizer.json", tmp_path)).to_str() == raw.to_str()


@pytest.mark.parametrize("kind", KINDS)
def test_our_own_pass_unchanged(kind: Any, tmp_path: Path) -> None:
    ours = trained(kind)
    ours.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").fingerprint() == ours.fingerprint()


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"normalizer": sequence("normalizers", *[REPLACE] * 6)}, "more than 64 times longer while it is read"),
        ({"decoder": sequence("decoders", *[REPLACE] * 12)}, "more than 64 times longer while it is written"),
        ({"normalizer": {**REPLACE, "pattern": {"String": ""}}}, "replaces nothing by"),
        ({"normalizer": {**REPLACE, "pattern": {"Regex": "a?"}}}, "may be empty"),
        ({"model": lambda old: {**old, "continuing_subword_prefix": "漢漢"}}, "does not begin with '漢漢'"),
        ({"normalizer": {**REPLACE, "content": None}}, "no text"),
        ({"normalizer": {**REPLACE, "pattern": "a"}}, "neither a String nor a Regex"),
        ({"normalizer": {"type": "Prepend", "prepend": "a" * 1000}}, "before every text"),
        ({"normalizer": sequence("normalizers", *[{"type": "NFC"}] * 65)}, "more than 64 steps"),
        ({"normalizer": {"type": "Anything"}}, "'Anything', which this version"),
        ({"normalizer": [1]}, "'None', which this version"),
        ({"pre_tokenizer": sequence("pretokenizers", *[{"type": "ByteLevel"}] * 30)}, "times longer"),
        (
            {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}}},
            r"\(a\+\)\+\$, which is not run: it repeats",
        ),
        ({"decoder": sequence("decoders", *[{"type": "BPEDecoder", "suffix": ""}] * 30)}, "times longer"),
        ({"normalizer": charsmap(b"\0\0\0\0")}, "precompiled_charsmap that is none"),
        ({"normalizer": charsmap(b"\xff\xff\xff\xff")}, "precompiled_charsmap that is none"),
        ({"normalizer": charsmap(trie({}) + b"a" * 5000)}, "times longer"),
        ({"normalizer": charsmap(trie({0: 1 << 20}) + b"a\0")}, "precompiled_charsmap that is none"),
        ({"normalizer": charsmap(trie({120: 120 | 1 << 8 | 300 << 10}) + b"a\0")}, "precompiled_charsmap that is none"),
        ({"normalizer": charsmap(trie({120: X, 121: 1 << 31 | 9}) + b"a\0")}, "precompiled_charsmap that is none"),
        ({"normalizer": charsmap(trie({120: X, 121: 1 << 31 | 1}) + "é\0".encode())}, "precompiled_charsmap that is none"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": 5}}, "precompiled_charsmap that is none"),
        ({"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {}}] * 99}}, "times longer"),
        ({"model": None}, "has no model"),
        ({"model": lambda old: {**old, "type": "Lambda"}}, "of the kind 'Lambda'"),
        ({"model": lambda old: {**old, "vocab": {}}}, "has no vocabulary"),
        ({"model": lambda old: {**old, "vocab": dict.fromkeys(old["vocab"], 0)}}, "the id 0 twice"),
        ({"model": lambda old: {**old, "vocab": {"a": 4_000_000_000}}}, "the id 4000000000"),
        ({"model": lambda old: {**old, "vocab": {"a": "b"}}}, "'a' the id b"),
        ({"model": lambda old: {**old, "vocab": {"a" * 100_000: 1}}}, "a piece of 100,000 characters"),
        ({"model": lambda old: {**old, "vocab": [["a", 0.0], 5]}}, "has no vocabulary"),
        ({"model": lambda old: {**old, "max_input_chars_per_word": 10**9}}, "max_input_chars_per_word=1000000000"),
        ({"added_tokens": 5}, "no list of pieces"),
        ({"added_tokens": lambda old: [*old, {**old[0], "content": "other"}]}, "the id 0 twice, for '<pad>' and 'other'"),
        ({"added_tokens": lambda old: [*old, {"id": 400, "content": "a" * 1_000_000}]}, "more than 250,000 characters"),
        ({"added_tokens": [{"id": -1, "content": "a"}]}, "with the id -1"),
    ],
)
def test_what_would_do_harm_is_refused_before_it_is_run(part: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told) as caught:
        read_pretrained(written(tmp_path, **part))
    assert len(str(caught.value)) < 500


def test_too_many_pieces_are_refused_before_they_are_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_check, "MOST_PIECES", 200)
    with pytest.raises(UserError, match="has 300 pieces"):
        read_pretrained(written(tmp_path))
    monkeypatch.setattr(tokenizer_check, "MOST_VALUES", 200)
    with pytest.raises(UserError, match="more than 200 values"):
        read_pretrained(written(tmp_path))


def test_a_file_says_a_key_twice(tmp_path: Path) -> None:
    """What was checked is what the library gets, whatever it would have made of the file."""
    text = TOKENIZER.replace('"padding":null', f'"padding":{json.dumps(FIXED)},"padding":null')
    assert text != TOKENIZER
    (tmp_path / "tokenizer.json").write_text(text)
    assert json.loads(read_checked(tmp_path / "tokenizer.json", tmp_path))["padding"] is None


def test_files_of_before_2021_do_not_name_the_kind_of_model() -> None:
    found = json.loads(TOKENIZER)
    del found["model"]["type"]
    tokenizers.Tokenizer.from_str(json.dumps(check_tokenizer(found, "tokenizer.json")))


def test_a_panic_is_a_sentence() -> None:
    """pyo3's PanicException is a BaseException; a charsmap whose trie ends too soon raises one."""
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    short = charsmap(b"\4\0\0\0" + b"\xff\xff\xff\x7f" + b"a\0")
    raw = tokenizers.Tokenizer.from_str(json.dumps(json.loads(raw.to_str()) | {"normalizer": short}))
    with pytest.raises(UserError, match="cannot be cut into pieces"):
        Tokenizer(raw).encode("some text")


def test_other_exceptions_pass() -> None:
    for kind in (KeyboardInterrupt, ValueError, UserError):
        with pytest.raises(kind), catch_panics("nothing"):
            raise kind("x")


@pytest.mark.parametrize("file", ["tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"])
def test_links_that_lead_out_are_not_followed(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in {"vocab.json": ("merges.txt",), "merges.txt": ("vocab.json",)}.get(file, ()):
        (folder / name).write_text('{"a": 0}' if name == "vocab.json" else "")
    (tmp_path / "secret").write_text("{}")
    (folder / file).symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="leads out of"):
        read_pretrained(folder)
