"""Wrong data files, each as training, validation and test set: told by file and line, with nothing left behind."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from tests.command import SENTENCES, contents, copy_of_run, refused, regard, tiny, trained, write_tiny

GOOD = "".join(f"{source}\t{target}\n" for source, target in SENTENCES)
NOISE = random.Random(1).randbytes(4000)

TABLES: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("empty.tsv", b"", ("empty.tsv is empty",)),
    ("blank.tsv", b"\n \n\n", ("blank.tsv is empty",)),
    ("gap.tsv", b"a\tb\n\nc\td\n", ("gap.tsv, line 2", "columns found: 1, expected: 2")),
    ("half.tsv", b"a\tb\nc\t\n", ("half.tsv, line 2", "is empty")),
    ("binary.tsv", b"\x7fELF\0\0" + NOISE, ("binary.tsv, line 1", "not plain text")),
    ("noise.csv", NOISE.replace(b"\0", b""), ("noise.csv, line 1", "not UTF-8", "iconv")),
    ("latin.tsv", b"a\tb\ncaf\xe9\tc\n", ("latin.tsv, line 2, byte 4", "0xE9 is not UTF-8", "iconv -f LATIN1")),
    ("utf16.tsv", "a\tb\n".encode("utf-16"), ("utf16.tsv, line 1", "UTF-16", "iconv -f UTF-16")),
    ("three.tsv", b"a\tb\tc\n", ("three.tsv, line 1", "columns found: 3, expected: 2", "data.columns=0,1")),
    ("one.csv", b"a\nb\n", ("one.csv, line 1", "columns found: 1")),
    ("ragged.csv", b"a,b\nc,d,e\n", ("ragged.csv, line 2", "columns found: 3, expected: 2 as in line 1")),
    ("quote.csv", b'a,b\n"c,d\n', ("quote.csv, line 2", "not CSV", "quote")),
    ("cut.tsv.gz", gzip.compress(NOISE.hex().encode())[:-900], ("cut.tsv.gz is not a whole gzip file", "gzip -t")),
    ("fake.tsv.gz", GOOD.encode(), ("fake.tsv.gz is not a whole gzip file",)),
    ("broken.jsonl", b'{"source": "a", "target": "b"}\n{"source": "a"', ("broken.jsonl, line 2", "not JSON", "one whole object")),
    ("list.jsonl", b'["a", "b"]\n', ("list.jsonl, line 1", "list found, object expected")),
    ("names.jsonl", b'{"en": "a", "fr": "b"}\n', ("names.jsonl, line 1", "no column 'source'", "data.columns=NAME,NAME")),
    ("number.jsonl", b'{"source": 3, "target": "b"}\n', ("number.jsonl, line 1", "column 'source' holds int")),
    ("null.jsonl", b'{"source": "a", "target": null}\n', ("null.jsonl, line 1", "column 'target'")),
    ("plain.txt", b"a\nb\n", ("plain.txt", "pairs need two", "*.tsv")),
]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize(("name", "content", "told"), TABLES, ids=[name for name, _, _ in TABLES])
def test_a_wrong_table(split: str, name: str, content: bytes, told: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    before = contents(tmp_path)
    result = regard("train", tiny(), f"data.{split}={tmp_path / name}", "--out", tmp_path / "runs" / "new")
    assert refused(result, *told).startswith(f"regard: data.{split}: {tmp_path / name}")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_file_that_is_not_there_or_no_file(split: str, tmp_path: Path) -> None:
    (tmp_path / "right.tsv").write_text(GOOD)
    for where, *told in (
        (tmp_path / "rihgt.tsv", "does not exist", "did you mean 'right.tsv'?"),
        (tmp_path / "no" / "a.tsv", "does not exist", f"the folder {tmp_path / 'no'}"),
        (tmp_path, "is a folder"),
        (tmp_path / "right.tsv" / "a.tsv", "does not exist"),
    ):
        refused(regard("train", tiny(), f"data.{split}={where}", "--out", tmp_path / "o"), f"data.{split}: {where}", *told)
        refused(regard("train", tiny(), f"data.{split}={where}", "--dry-run"), f"data.{split}: {where}", *told)
    assert contents(tmp_path).keys() == {"right.tsv"}


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file here that even root cannot read")
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_file_that_cannot_be_read(split: str, tmp_path: Path) -> None:
    (tmp_path / "secret.tsv").symlink_to("/proc/self/mem")
    result = regard("train", tiny(), f"data.{split}={tmp_path}/secret.tsv", "--out", tmp_path / "o")
    refused(result, f"data.{split}: {tmp_path}/secret.tsv cannot be read: Input/output error", "Check")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("a\nb\nc\n", "a\nb\n", ("has 3 lines", "has 2", "line n of one must belong to line n")),
        ("a\n\nc\n", "a\nb\nc\n", ("source.en, line 2", "is empty")),
        ("a\nb\n", "a\nb\nc\n\n", ("has 2 lines", "has 3", "line 3")),
        ("a\nb\n", "a\n \n\nd\n", ("target.fr, line 2", "is empty")),
        ("", "", ("source.en is empty",)),
    ],
)
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_aligned_files_that_are_not(split: str, source: str, target: str, told: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "source.en").write_text(source)
    (tmp_path / "target.fr").write_text(target)
    given = f"data.{split}={tmp_path}/source.en,{tmp_path}/target.fr"
    refused(regard("train", tiny(), given, "--out", tmp_path / "o"), f"data.{split}:", *told)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("data.train={0}/train.en", ("pairs need two", "train.en,OTHER")),
        ("data.train={0}/train.en,{0}/train.fr,{0}/valid.tsv", ("data.train:", "two aligned text files")),
        ("data.train={0}/valid.tsv,{0}/test.tsv", ("data.train:", "valid.tsv")),
        ("data.train=", ("data.train is empty", "hf:NAME")),
        ("data.valid=", ("data.valid is empty",)),
        ("data.train=builtin:english-frensh/train", ("data.train:", "did you mean 'english-french'?")),
        ("data.train=builtin:english-french/tset", ("data.train:", "did you mean 'test'?")),
        ("data.valid=builtin:english-french", ("data.valid:", "builtin:english-french/train")),
        ("data.test=hf:", ("data.test:", "hf:NAME@CONFIG:SPLIT")),
        ("data.columns=en", ("data.columns has 1 names", "source,target")),
        ("data.columns=en,fr", ("data.valid:", "there is no column 'en'")),
        ("data.columns=0,7", ("data.valid:", "'7'")),
        ("data.valid={0}/caf\udce9.tsv", ("data.valid", "not UTF-8")),
    ],
)
def test_data_that_is_misnamed(given: str, told: tuple[str, ...], tmp_path: Path) -> None:
    refused(regard("train", tiny(), given.format(tiny().parent), "--out", tmp_path / "o"), *told)
    assert not (tmp_path / "o").exists()


def test_the_mended_command_then_works_in_the_same_folder(tmp_path: Path) -> None:
    recipe, out = write_tiny(tmp_path), tmp_path / "o"
    refused(regard("train", recipe, f"data.valid={tmp_path}/vaild.tsv", "--out", out), "did you mean 'valid.tsv'?")
    assert regard("train", recipe, "train.steps=2", "--out", out).code == 0


def test_data_that_changed_since_the_run_began(tmp_path: Path) -> None:
    recipe = write_tiny(tmp_path)
    assert regard("train", recipe, "train.steps=2", "--out", tmp_path / "o").code == 0
    changed = (tmp_path / "train.en").read_text().replace("cat", "dog")
    (tmp_path / "train.en").write_text(changed)
    before = contents(tmp_path / "o")
    told = refused(regard("train", recipe, "train.steps=4", "--out", tmp_path / "o"), "training data", "another --out")
    assert str(tmp_path / "o") in told
    assert contents(tmp_path / "o") == before


def test_another_test_set_that_is_wrong(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    before = contents(run)
    (tmp_path / "three.tsv").write_text("a\tb\tc\n")
    refused(regard("evaluate", run, f"data.test={tmp_path}/three.tsv"), "data.test:", "three.tsv, line 1", "expected: 2")
    refused(regard("evaluate", run, f"data.test={tmp_path}/none.tsv"), "data.test:", "none.tsv does not exist")
    refused(regard("evaluate", run, "data.test="), "nothing to score", "data.test=FILE")
    assert contents(run) == before


def test_windows_lines_and_marks_are_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "windows.tsv").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    result = regard("evaluate", trained(), f"data.test={tmp_path}/windows.tsv", "--json")
    plain = tmp_path / "plain.tsv"
    plain.write_text(GOOD)
    assert result.code == 0
    assert result.out == regard("evaluate", trained(), f"data.test={plain}", "--json").out
