"""Labelled texts as people have them: what is wrong is told by file and line, and nothing is written; the rest is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data.sources.labelled import read_labelled
from tests.command import contents, refused, regard
from tests.tasks.tiny_labels import ROWS, TINY, trained, write_rows

GOOD = "".join(f"{text}\t{label}\n" for text, label in ROWS)
LONG = "very " * 20_000  # 100,000 characters

TABLES: list[tuple[str, bytes, tuple[str, ...], tuple[str, ...]]] = [
    ("empty.tsv", b"", (), ("empty.tsv is empty",)),
    ("blank.csv", b"\n\r\n  \n", (), ("blank.csv is empty",)),
    ("mark.tsv", b"\xef\xbb\xbf", (), ("mark.tsv is empty",)),
    ("header.tsv", b"text\tlabel\n", ("data.columns=text,label",), ("no texts in it",)),
    ("one.tsv", b"just a text\nand another\n", (), ("line 1", "columns found: 1", "a tab and its label")),
    ("four.tsv", b"1\ta\tb\tx\n", (), ("line 1", "columns found: 4 (1, a, b, x)")),
    ("semicolons.csv", b"text;label\na, b;x\nc;y\n", (), ("line 1", "columns found: 1", "parted by semicolons", "commas")),
    ("quoted.csv", b'text;label\n"a, b";x\n"c";y\n', (), ("line 2", "parted by semicolons")),
    ("ragged-semicolons.csv", b"a;x\nb, c;y\n", ("data.columns=0,1",), ("line 1", "no column '1'")),
    ("unlabelled.tsv", b"a\tx\nb\t\n", (), ("line 2", "the label", "is empty")),
    ("missing.tsv", b"a\tx\nb\n", (), ("line 2", "columns found: 1, expected: 2")),
    ("textless.tsv", b"a\tx\n  \ty\n", (), ("line 2", "is empty, but a text is needed")),
    ("gap.tsv", b"a\tx\n\nb\ty\n", (), ("line 2", "columns found: 1")),
    ("named.tsv", b"v1\tv2\na\tx\nb\ty\nc\tx\n", (), ("line 1 looks like a header", "data.columns=v1,v2")),
    ("typo.tsv", b"text\tlabel\na\tx\nb\ty\n", ("data.columns=text,lable",), ("no column 'lable'", "did you mean 'label'?")),
    ("number.tsv", b"a\tx\nb\ty\n", ("data.columns=0,2",), ("no column '2'",)),
    ("twice.tsv", b"t\tt\tl\na\tb\tx\n", ("data.columns=t,l",), ("two columns are named 't'",)),
    ("latin.tsv", b"caf\xe9\tx\nb\ty\n", (), ("line 1, byte 4", "0xE9 is not UTF-8", "iconv -f LATIN1")),
    ("mixed.tsv", "café\tx\n".encode() + b"caf\xe9\ty\n", (), ("line 2, byte 4", "0xE9 is not UTF-8")),
    ("utf16.tsv", "a\tx\nb\ty\n".encode("utf-16"), (), ("UTF-16", "iconv -f UTF-16")),
    ("nul.tsv", b"a\0\tx\nb\ty\n", (), ("line 1", "NUL byte")),
    ("quote.csv", b'a,x\n"b,y\n', (), ("line 2", "not CSV", "quote")),
    ("ragged.csv", b"a,x\nb, and more,y\n", (), ("line 2", "columns found: 3, expected: 2")),
    ("broken.jsonl", b'{"text": "a", "label": "x"}\n{"text": "b"', (), ("line 2", "not JSON")),
    ("names.jsonl", b'{"a": "a b c", "b": "x"}\n', (), ("line 1", "the keys (a, b)", "data.columns=a,b")),
    ("null.jsonl", b'{"text": "a", "label": null}\n', (), ("line 1", "holds NoneType")),
    ("list.jsonl", b'{"text": ["a"], "label": "x"}\n', (), ("line 1", "column 'text' holds list")),
    ("hidden.jsonl", b'{"text": "a", "label": "x\\u200b\\n"}\n', (), ("line 1", "cannot be seen")),
    ("half.jsonl", b'{"text": "a\\ud800", "label": "x"}\n', (), ("line 1", "half a character")),
    ("cut.tsv.gz", gzip.compress(GOOD.encode())[:-20], (), ("not a whole gzip file",)),
    ("plain.txt", b"a\tx\nb\ty\n", (), ("plain.txt is no table", "*.tsv")),
    ("word.docx", b"PK\x03\x04", (), ("word.docx is no table",)),
    ("long.tsv", f"{LONG}\tgood\nb\tbad\n".encode(), (), ("line 1 is 20,002 tokens long", "data.maximum_tokens=24")),
]


def train(folder: Path, *settings: str, recipe: str = "bert-classify") -> object:
    return regard("train", recipe, *TINY, *settings, "--out", folder / "run", "--device", "cpu")


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize(("name", "content", "settings", "told"), TABLES, ids=[name for name, *_ in TABLES])
def test_a_wrong_table(
    split: str, name: str, content: bytes, settings: tuple[str, ...], told: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.tsv").write_text(GOOD if not settings else "text\tlabel\tt\tl\n" + GOOD.replace("\n", "\ta\tb\n"))
    other = tmp_path / name if settings else tmp_path / "good.tsv"
    where = {key: tmp_path / name if key == split else other for key in ("train", "valid")}
    before = contents(tmp_path)
    result = train(tmp_path, *(f"data.{key}={path}" for key, path in where.items()), *settings)
    first = "train" if settings else split
    assert refused(result, *told).startswith(f"regard: data.{first}: {tmp_path / name}")  # type: ignore[arg-type]
    assert contents(tmp_path) == before


LABELS: list[tuple[str, list[tuple[str, ...]], list[tuple[str, ...]], tuple[str, ...]]] = [
    ("one class only", [("a", "x"), ("b", "x")], [("a", "x")], ("one label only, 'x'", "data.columns")),
    ("columns swapped", [(f"xy{n % 2}", f"text {n}") for n in range(40)], [("a", "x")], ("40 labels for 40 texts", "swapped")),
    ("numbers as labels", [(f"t {n}", f"{n}.5") for n in range(40)], [("a", "1")], ("numbers", "objective.name=regression")),
    ("a label misspelt", [("a", "good"), ("b", "bad")], [("c", "godo")], ("valid.tsv, line 1", "'godo'", "did you mean 'good'?")),
    ("a pair among texts", [("a", "x"), ("b", "y")], [("a", "b", "x")], ("valid.tsv, line 1", "texts found: 2, in training: 1")),
    ("a text among pairs", [("a", "b", "x"), ("b", "c", "y")], [("a", "x")], ("texts found: 1, in training: 2",)),
]  # fmt: skip


@pytest.mark.parametrize(("what", "rows", "valid", "told"), LABELS, ids=[what for what, *_ in LABELS])
def test_wrong_labels(
    what: str, rows: list[tuple[str, ...]], valid: list[tuple[str, ...]], told: tuple[str, ...], tmp_path: Path
) -> None:
    where = write_rows(tmp_path / "train.tsv", rows), write_rows(tmp_path / "valid.tsv", valid)
    before = contents(tmp_path)
    refused(train(tmp_path, f"data.train={where[0]}", f"data.valid={where[1]}"), *told)  # type: ignore[arg-type]
    assert contents(tmp_path) == before


NUMBERS: list[tuple[str, list[tuple[str, ...]], tuple[str, ...]]] = [
    ("a word", [("a", "b", "1.5"), ("b", "c", "high")], ("line 2", "'high' is not a number", "objective.name=classification")),
    ("a comma", [("a", "b", "1,5"), ("b", "c", "2,5")], ("line 1", "'1,5' is not a number")),
    ("no number", [("a", "b", "nan"), ("b", "c", "1")], ("line 1", "'nan' is not a number")),
    ("beyond all", [("a", "b", "1e999"), ("b", "c", "1")], ("line 1", "'1e999' is not a number")),
    ("one number", [("a", "b", "3"), ("b", "c", "3.0")], ("one number only, 3",)),
    ("columns swapped", [("1", "a", "b"), ("2", "b", "c")], ("line 1", "'b' is not a number", "data.columns")),
]


@pytest.mark.parametrize(("what", "rows", "told"), NUMBERS, ids=[what for what, *_ in NUMBERS])
def test_wrong_numbers(what: str, rows: list[tuple[str, ...]], told: tuple[str, ...], tmp_path: Path) -> None:
    data = write_rows(tmp_path / "rows.tsv", rows)
    result = train(tmp_path, f"data.train={data}", f"data.valid={data}", recipe="bert-similarity")
    refused(result, "data.train", *told)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


SETTINGS: list[tuple[str, tuple[str, ...]]] = [
    ("objective.balance=weight", ("objective.balance=weight", "weights")),
    ("objective.name=regresion", ("objective.name=regresion", "did you mean 'regression'?")),
    ("objective.language=0.5", ("objective.language=0.5", "model.family=gpt")),
    ("objective.smoothing=1", ("objective.smoothing=1",)),
    ("data.columns=a", ("data.columns has 1 names",)),
    ("data.columns=a,b,c,d", ("data.columns has 4 names",)),
    ("data.columns=a,a", ("names a column twice",)),
    ("data.valid=", ("data.valid is empty", "data.valid_fraction=0.1")),
    ("data.valid=nowhere.tsv", ("data.valid: nowhere.tsv does not exist", "data.valid_fraction=0.1")),
    ("data.maximum_tokens=2", ("data.maximum_tokens=2",)),
    ("data.maximum_tokens=99", ("more than model.maximum_length=24",)),
    ("data.limit=-1", ("data.limit=-1",)),
    ("data.train=builtin:inferense/train", ("no built-in labelled texts 'inferense'", "did you mean 'inference'?")),
    ("data.train=builtin:inference", ("lacks a split", "builtin:inference/train")),
    ("data.train=builtin:similarity/dev", ("no split 'dev'",)),
    ("task.init_from=nowhere/at/all", ("nowhere/at/all",)),
]


@pytest.mark.parametrize(("setting", "told"), SETTINGS, ids=[setting for setting, _ in SETTINGS])
def test_a_wrong_setting(setting: str, told: tuple[str, ...], tmp_path: Path) -> None:
    refused(train(tmp_path, setting), *told)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("crlf.tsv", GOOD.replace("\n", "\r\n").encode()),
        ("mark.tsv", b"\xef\xbb\xbf" + GOOD.encode()),
        ("open.tsv", GOOD.removesuffix("\n").encode()),
        ("trailing.tsv", GOOD.encode() + b"\n\n"),
        ("both.csv", b"\xef\xbb\xbf" + GOOD.replace("\t", ",").replace("\n", "\r\n").encode()),
        ("good.ndjson", "".join(json.dumps({"text": t, "label": label, "id": 3}) + "\r\n" for t, label in ROWS).encode()),
        ("good.tsv.gz", gzip.compress(GOOD.encode())),
    ],
)
def test_what_only_looks_wrong_is_read(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert [(example.text, example.label) for example in read_labelled((str(tmp_path / name),))] == ROWS


def test_texts_of_a_hundred_thousand_characters(tmp_path: Path) -> None:
    run = trained()
    told = refused(regard("predict", run, LONG, "--device", "cpu"), "is 20,002 tokens long", "data.maximum_tokens=24")
    assert len(told) < 300
    cut = regard("predict", run, LONG, "--device", "cpu", "data.maximum_tokens=24")
    assert cut.code == 0, cut.err
    assert cut.out.split("\t")[0] in ("bad", "good")
    one_word = regard("predict", run, "x" * 100_000, "--device", "cpu")  # which no vocabulary of words has
    assert one_word.code == 0, one_word.err
