"""Wrong questions, contexts and answers, in files of every split and typed: one sentence each, and nothing left behind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import contents, refused, regard
from tests.tasks.tiny_questions import ROWS, TINY, trained, write_rows

GOOD = {"question": "Which animal?", "context": "a cat and a dog", "answers": [{"text": "cat", "start": 2}]}


def lines(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def squad(**keys: Any) -> bytes:
    asked = {"id": "1", **{key: value for key, value in GOOD.items() if key != "context"}, **keys}
    return json.dumps({"data": [{"paragraphs": [{"context": GOOD["context"], "qas": [asked]}]}]}).encode()


FILES: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("empty.json", b"", ("empty.json is empty",)),
    ("empty.jsonl", b"\n\n", ("empty.jsonl is empty",)),
    ("half.json", squad()[:-5], ("half.json: this is not JSON", "line 1")),
    ("list.json", b"[]", ("there is no list 'data'", "*.jsonl")),
    ("latin.json", squad().replace(b"cat", b"c\xe9t"), ("latin.json, line 1, byte", "not UTF-8", "iconv")),
    ("latin.jsonl", lines(GOOD) + b'{"question": "caf\xe9"}\n', ("latin.jsonl, line 2", "not UTF-8", "iconv")),
    ("utf16.jsonl", "{}".encode("utf-16"), ("UTF-16",)),
    ("binary.json", b"\x7fELF\0\0", ("not plain text",)),
    ("fake.json.gz", squad(), ("fake.json.gz is not a whole gzip file",)),
    ("cut.json.gz", gzip.compress(squad())[:-9], ("cut.json.gz is not a whole gzip file",)),
    ("impossible.json", squad(is_impossible=True), ("data[0].paragraphs[0].qas[0]", "is_impossible is true")),
    ("silent.json", squad(answers=[], is_impossible=True), ("qas[0] has no answer", "data.unanswerable=true")),
    ("elsewhere.json", squad(answers=[{"text": "horse", "answer_start": 2}]), ("'horse' is not in the context",)),
    ("number.json", squad(question=3), ("column 'question' holds int",)),
    ("broken.jsonl", lines(GOOD) + b'{"question": "x"', ("broken.jsonl, line 2", "not JSON")),
    ("names.jsonl", lines({"q": "x", "text": "y"}), ("line 1", "no column 'question'", "data.columns=QUESTION,CONTEXT,ANSWERS")),
    ("swapped.jsonl", lines({**GOOD, "question": "a cat and a dog", "context": "Which?"}), ("'cat' is not in the context",)),
    ("twice.jsonl", lines({"question": "x", "context": "a cat, a cat", "answer": "cat"}), ("2 times", "data.first=true")),
    ("far.jsonl", lines({**GOOD, "answers": [{"text": "cat", "start": 900}]}), ("does not stand at 900; the nearest is at 2",)),
    ("blank.jsonl", lines({**GOOD, "context": " "}), ("line 1: 'context' is empty",)),
    ("same.jsonl", lines({**GOOD, "id": "a"}, {**GOOD, "id": "a"}), ("line 2: the id 'a' is that of", "line 1")),
    ("long.jsonl", lines({**GOOD, "context": "x" * 100_000}), ("'cat' is not in the context",)),
    ("table.tsv", b"a\tb\tc\n", ("neither SQuAD's JSON nor JSON lines", "*.jsonl")),
]  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("good") / "rows.jsonl", ROWS)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize(("name", "content", "told"), FILES, ids=[name for name, _, _ in FILES])
def test_a_wrong_file(split: str, name: str, content: bytes, told: tuple[str, ...], good: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    before = contents(tmp_path)
    where = [f"data.{part}={tmp_path / name if part == split else good}" for part in ("train", "valid", "test")]
    result = regard("train", "bert-answer", *TINY, *where, "--device", "cpu", "--out", tmp_path / "run")
    assert refused(result, *told).startswith(f"regard: data.{split}: {tmp_path / name}")
    assert contents(tmp_path) == before


SETTINGS: list[tuple[str, tuple[str, ...]]] = [
    ("data.columns=question,context", ("data.columns has 2 names", "question,context,answers")),
    ("data.columns=a,a,b", ("names a column twice",)),
    ("data.window=-1", ("data.window=-1 must be 0 (model.maximum_length) or more",)),
    ("data.stride=-1", ("data.stride=-1 must be 0",)),
    ("data.maximum_answer=0", ("data.maximum_answer=0 must be at least 1",)),
    ("data.n_best=0", ("data.n_best=0 must be at least 1",)),
    ("data.threshold=1", ("data.threshold=1.0 is for data.unanswerable=true",)),
    ("data.threshold=nan", ("data.threshold=nan must be a finite number",)),
    ("data.maximum_question=30", ("has no room for a question of data.maximum_question=30",)),
    ("objective.name=classification", ("objective.name=classification is not known for task.name=question_answering",)),
    ("model.family=gpt", ("model.family=gpt is not known for task.name=question_answering",)),
]


@pytest.mark.parametrize(("setting", "told"), SETTINGS, ids=[setting for setting, _ in SETTINGS])
def test_a_wrong_setting(setting: str, told: tuple[str, ...], good: Path, tmp_path: Path) -> None:
    where = [f"data.{part}={good}" for part in ("train", "valid")]
    refused(regard("train", "bert-answer", *TINY, *where, setting, "--device", "cpu", "--out", tmp_path / "run"), *told)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("text", ["Which animal?", "Which animal?\t", "\ta cat", "Which animal?\t \t "])
def test_a_question_without_its_context(text: str) -> None:
    refused(regard("predict", trained(), text, "--device", "cpu"), "put a tab between a question and the text to look in")


@pytest.mark.parametrize(
    "text",
    [
        "x\t" + "a cat runs, " * 8_000,
        "x" * 100_000 + "\ta cat",
        "😀\t👩‍👩‍👧‍👦",
        "a\t\x01\u202e",
        "?\t<eos> [CLS] </s>",
        "q\tc\td\te",
    ],
    ids=["long context", "long question", "emoji", "invisible", "marks", "more tabs"],
)
def test_a_strange_question_is_answered(text: str) -> None:
    result = regard("predict", trained(), text, "--device", "cpu")
    assert result.code == 0, result.err
    answer, start, end, *_ = result.out.rstrip("\n").split("\t")
    context = text.partition("\t")[2]
    assert context[int(start) : int(end)] == answer.replace("\\t", "\t")
