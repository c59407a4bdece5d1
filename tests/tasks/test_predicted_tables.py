"""`regard predict --input TABLE`: a row is answered as its text alone would be, whatever stands beside it."""

from __future__ import annotations

import csv
import gzip
import io
import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import command
from tests.command import refused, regard
from tests.tasks import tiny_questions
from tests.tasks.tiny_labels import PAIRS, ROWS, trained

TEXTS = [text for text, _ in ROWS[:5]]


@cache
def said(*texts: str, pairs: bool = False) -> str:
    return regard("predict", trained(pairs=pairs), *texts, "--device", "cpu").out


def predicted(path: Path, *settings: str, pairs: bool = False) -> command.Result:
    chosen = [word for setting in settings for word in ("--set", setting)]
    return regard("predict", trained(pairs=pairs), "--input", path, *chosen, "--device", "cpu")


def spreadsheet(rows: list[list[str]]) -> bytes:
    """As Excel saves it: a mark, quotes and Windows' line ends."""
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode("utf-8-sig")


@settings(max_examples=8)
@given(st.permutations(["Review Text", "id", "Sentiment", "note"]))
def test_columns_are_those_that_were_trained_on(order: list[str]) -> None:
    row = {"id": "7", "Sentiment": "", "note": 'a "quoted", long\r\nnote'}
    table = spreadsheet([order, *([{**row, "Review Text": text}[name] for name in order] for text in TEXTS)])
    with command.TemporaryDirectory() as folder:
        path = Path(folder) / "reviews.CSV"
        path.write_bytes(table)
        assert predicted(path, "data.columns=Review Text,Sentiment").out == said(*TEXTS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labelled.tsv", "".join(f"{text}\tbad\n" for text in TEXTS)),
        ("alone.tsv", "".join(f"{text}\n" for text in TEXTS)),
        ("lines.jsonl", "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in TEXTS)),
        ("plain.txt", "".join(f"{text}\n" for text in TEXTS)),
    ],
)
def test_rows_without_a_choice_of_columns(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert predicted(tmp_path / name).out == said(*TEXTS)
    if not name.endswith(".txt"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
        assert predicted(tmp_path / f"{name}.gz").out == said(*TEXTS)


def test_pairs(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("".join(f"{one},{other},{label}\n" for one, other, label in PAIRS[:4]))
    typed = [f"{one}\t{other}" for one, other, _ in PAIRS[:4]]
    assert predicted(tmp_path / "pairs.csv", pairs=True).out == said(*typed, pairs=True)


def test_more_rows_than_are_answered_together(tmp_path: Path) -> None:
    (tmp_path / "many.tsv").write_text("".join(f"{TEXTS[n % 5]}\tbad\n" for n in range(150)))
    lines = predicted(tmp_path / "many.tsv").out.splitlines()
    assert lines[:5] == said(*TEXTS).splitlines()
    assert [line.split("\t")[0] for line in lines] == [line.split("\t")[0] for line in lines[:5]] * 30


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (
            "wide.csv",
            "1,a,b,bad\n",
            ("wide.csv, line 1: columns found: 4", "expected: 1, or one more for a label", "data.columns"),
        ),
        ("gap.csv", "a,bad\n ,bad\n", ("gap.csv, line 2", "is empty")),
        ("names.jsonl", '{"body": "a"}\n', ("names.jsonl, line 1", "no column 'text'")),
        ("semicolons.csv", "id;text\n1;a, b\n", ("semicolons.csv, line 2", "parted by semicolons", "commas")),
        ("list.json", "[]", ("list.json is no list of texts", ".txt", "regard evaluate")),
    ],
)
def test_a_table_that_cannot_be_read(name: str, content: str, told: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    result = regard("predict", trained(), "--input", tmp_path / name, "--output", tmp_path / "out", "--device", "cpu")
    assert refused(result, *told).startswith(f"regard: --input {tmp_path / name}")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["pairs.csv", "rows.jsonl", "squad.json", "names.conll", "rows.csv.gz"])
def test_other_models_do_not_take_a_table_for_lines(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("the cat,le chat\n")
    refused(
        regard("predict", command.trained(), "--input", tmp_path / name), f"{name} is no list of texts", "one text on each line"
    )


def test_a_question_and_its_text_in_a_tsv(tmp_path: Path) -> None:
    typed = "Which animal?\ta cat and a dog"
    (tmp_path / "asked.tsv").write_text(f"{typed}\n")
    run = tiny_questions.trained()
    assert regard("predict", run, "--input", tmp_path / "asked.tsv").out == regard("predict", run, typed).out
