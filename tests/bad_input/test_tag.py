"""Tagged sentences and settings that cannot be trained on, through the command: one sentence each, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import contents, refused, regard, went_well
from tests.tasks.tiny_tags import ROWS, TINY, trained, write_rows

GOOD = "Ann B-PER\nleft O\nRome B-LOC\n"


def train(folder: Path, content: bytes | str, *settings: str, name: str = "train.conll", valid: str = GOOD) -> object:
    """`regard train bert-tag` on a file with this content."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    (data / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (data / "valid.conll").write_text(valid)
    where = [f"data.train={data / name}", f"data.valid={data / 'valid.conll'}"]
    before = contents(folder)
    result = regard("train", "bert-tag", *where, *TINY, *settings, "--out", folder / "run", "--device", "cpu")
    assert contents(folder) == before
    return result


@pytest.mark.parametrize(
    ("content", "settings", "told"),
    [
        (
            "Ann B-PER\nleft O\n\nBob I-PER\nRome B-LOC\n",
            (),
            ["train.conll, line 4", "'I-PER'", "breaks iob2", "data.repair=true"],
        ),
        ("Ann B-PER\nRome I-LOC\n", (), ["line 2", "behind 'B-PER'", "'B-LOC'"]),
        ("Ann I-PER\nLee B-PER\nBob O\nRay B-PER\n", ("data.scheme=iob1",), ["line 4", "breaks iob1"]),
        ("Ann B-PER\nLee I-PER\nBob O\n", ("data.scheme=iobes",), ["line 2", "iobes", "'E-PER'"]),
        ("Ann B-PER\nLee S-PER\nBob O\nRay B-LOC\n", (), ["line 2", "'S-PER'", "none of iob2"]),
        ("Ann B-PER\nleft 0\nRome B-LOC\n", (), ["line 2", "the tag '0' is none of iob2", "data.scheme=plain"]),
        ("Ann B-PER\nleft\n", (), ["line 2", "columns found: 1, expected: 2"]),
        ("Ann\nleft\n", (), ["line 1", "a word and its tag are expected"]),
        ("Ann B-PER x y\nleft O x\n", (), ["line 2", "columns found: 3, expected: 4"]),
        ("Ann B-PER\n", ("data.columns=0,5",), ["line 1", "data.columns=0,5 asks for more"]),
        ("Ann B-PER\n", ("data.columns=word,tag",), ["by number", "data.columns=0,3"]),
        ("Ann O\nleft O\n", (), ["one tag only, 'O'", "data.columns"]),
        ("\n".join(f"O word{n}" for n in range(80)), (), ["80 tags for 80 words", "columns swapped"]),
        (b"Ann B-PER\ncaf\xe9 O\n", (), ["line 2, byte 4", "is not UTF-8", "iconv"]),
        ("Ann B-PER\n".encode("utf-16"), (), ["UTF-16"]),
        (b"", (), ["train.conll is empty"]),
        (b"\n\n\n", (), ["train.conll is empty"]),
        ("-DOCSTART- -X- O\n\n", (), ["there are no sentences"]),
        (b"Ann\0B-PER O\n", (), ["NUL byte"]),
        (GOOD, ("data.scheme=iob3",), ["data.scheme=iob3 is not a choice", "iob2"]),
        (GOOD, ("data.columns=0",), ["must be two columns"]),
        (GOOD, ("data.columns=1,1",), ["must be two columns"]),
        (GOOD, ("data.window=4",), ["data.window=4", "at least 16"]),
        (GOOD, ("data.window=600",), ["data.window=600 is more than model.maximum_length=24"]),
        (GOOD, ("model.maximum_length=8",), ["model.maximum_length=8 is too small"]),
        (GOOD, ("data.limit=-1",), ["data.limit=-1"]),
        (GOOD, ("objective.smoothing=1",), ["objective.smoothing=1.0 must be"]),
        (GOOD, ("objective.name=classification",), ["objective.name=classification is not known", "tagging"]),
        (GOOD, ("model.family=gpt",), ["model.family=gpt is not known", "bert"]),
        (GOOD, ("data.tags=x",), ["data.tags is not a setting"]),
        (GOOD, ("data.valid=",), ["data.valid is empty", "a word and its tag on each line"]),
        (GOOD, ("data.valid=none.conll",), ["data.valid: none.conll does not exist"]),
        (GOOD, ("task.init_from=nowhere",), ["nowhere"]),
    ],
)
def test_what_cannot_be_trained_on(content: bytes | str, settings: tuple[str, ...], told: list[str], tmp_path: Path) -> None:
    refused(train(tmp_path, content, *settings), *told)  # type: ignore[arg-type]


def test_tags_that_only_validation_has(tmp_path: Path) -> None:
    result = train(tmp_path, GOOD, valid="Ann B-PER\nEU B-ORG\n")
    refused(result, "data.valid: ", "valid.conll, line 2", "the tag 'B-ORG' is not one that training knows")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", '{"words": ["a", "b"], "tags": ["O"]}', ["line 1", "words found: 2, tags: 1"]),
        ("a.jsonl", '{"words": ["a"]}', ["there is no column 'tags'"]),
        (
            "a.jsonl",
            '{"words": ["a"], "tags": ["B-X"]}\n{"words": ["a"], "tags": ["I-X"]}\n{"words": ["b"], "tags": ["B-X"]}',
            ["line 2, word 1 ('a')", "breaks iob2"],
        ),
        ("a.csv", "Ann,B-PER\n", ["tagged sentences come in files named *.txt"]),
        ("a.txt.gz", "Ann B-PER\n", ["not a whole gzip file"]),
    ],
)
def test_files_of_other_kinds(name: str, content: str, told: list[str], tmp_path: Path) -> None:
    refused(train(tmp_path, content, name=name), *told)  # type: ignore[arg-type]


def test_what_cannot_be_scored(tmp_path: Path) -> None:
    other = tmp_path / "other.conll"
    for rows, told in (
        ([(["Ann"], ["B-ORG"])], "the tag 'B-ORG' is not one that training knows"),
        ([(["Ann", "left"], ["NN", "VB"])], "the tag 'NN' is not one that training knows"),
        ([(["Ann", "Lee"], ["B-PER", "O"]), (["Ann", "Lee"], ["O", "I-PER"])], "line 5: the tag 'I-PER' behind 'O' breaks iob2"),
    ):
        write_rows(other, rows)
        refused(regard("evaluate", trained(), f"data.test={other}", "--device", "cpu"), "data.test: ", told)
    write_rows(other, ROWS[:3])
    refused(regard("evaluate", trained(), f"data.test={other}", "train.steps=9", "--device", "cpu"), "cannot be set")


def test_a_text_that_is_not_unicode() -> None:
    refused(regard("predict", trained(), "caf\udce9", "--device", "cpu"), "half a character", "UTF-8")


@pytest.mark.parametrize(
    "text", ["", "  ", "😀👩‍👩‍👧", "the\x00\x01\x1b[31m cat\x7f", "e\u0301\u0327" * 40, "[CLS] <eos>", "x" * 20_000, "-1"]
)
def test_a_strange_text_is_tagged(text: str) -> None:
    result = regard("predict", trained(), "--device", "cpu", "--", text)
    assert went_well(result), result
    assert result.out.endswith("\n")
