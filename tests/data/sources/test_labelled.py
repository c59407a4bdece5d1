"""Labelled texts from every kind of source, and one sentence with file and line for whatever is wrong with one."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources import records
from regard.data.sources.labelled import read_labelled
from tools.corpora.remarks import remarks

ROWS = [("good soup", "yes"), ("bad soup", "no"), ('a "quoted", text', "yes"), ("cold soup", "no")]
PAIRS = [("a cat", "an animal", "follows"), ("a cat", "a dog", "does not"), ("a cup", "a thing", "follows")]


def written(path: Path, content: str) -> tuple[str]:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return (str(path),)


def as_csv(rows: list[tuple[str, ...]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def as_tsv(rows: list[tuple[str, ...]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def as_jsonl(rows: list[tuple[str, ...]], names: tuple[str, ...] = ("text", "label")) -> str:
    return "".join(json.dumps(dict(zip(names, row))) + "\n" for row in rows)


def read(where: tuple[str, ...], *columns: str) -> list[tuple[str, ...]]:
    return [(*example.texts, example.label) for example in read_labelled(where, columns)]


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.tsv", as_tsv(ROWS), ()),
        ("a.csv", as_csv(ROWS), ()),
        ("a.CSV.gz", as_csv(ROWS), ()),
        ("a.jsonl", as_jsonl(ROWS), ()),
        ("a.ndjson.gz", as_jsonl(ROWS), ()),
        ("a.tsv", as_tsv([("sentence", "label"), *ROWS]), ("sentence", "label")),
        ("a.tsv", as_tsv([(label, "x", text) for text, label in ROWS]), ("2", "0")),
        ("a.csv", as_csv([("kind", "n", "said"), *((label, "1", text) for text, label in ROWS)]), ("said", "kind")),
        ("a.jsonl", as_jsonl(ROWS, ("review", "stars")), ("review", "stars")),
        ("a.txt", as_tsv([("#1 String", "Quality"), *ROWS]), ("#1 String", "Quality")),
        ("a.TXT.gz", as_tsv([("7", label, text) for text, label in ROWS]), ("2", "1")),
    ],
)
def test_every_kind_of_file(name: str, content: str, columns: tuple[str, ...], tmp_path: Path) -> None:
    assert read(written(tmp_path / name, content), *columns) == ROWS


def test_pairs(tmp_path: Path) -> None:
    assert read(written(tmp_path / "a.tsv", as_tsv(PAIRS))) == PAIRS
    named = as_jsonl(PAIRS, ("premise", "hypothesis", "label"))
    assert read(written(tmp_path / "a.jsonl", named), "premise", "hypothesis", "label") == PAIRS


def test_several_sources_one_after_the_other_and_a_limit(tmp_path: Path) -> None:
    where = (*written(tmp_path / "a.tsv", as_tsv(ROWS)), "builtin:remarks/valid")
    found = read(where)
    assert found[: len(ROWS)] == ROWS
    assert found[len(ROWS) :] == [tuple(remark) for remark in remarks("valid")]
    assert len(read_labelled(where, (), 6)) == 6


def test_a_column_that_files_call_differently(tmp_path: Path) -> None:
    one = written(tmp_path / "a.tsv", as_tsv([("sentence", "label"), *ROWS]))
    other = written(tmp_path / "b.tsv", as_tsv([("label", "content"), *((label, text) for text, label in ROWS)]))
    assert read((*one, *other), "sentence|content", "label") == [*ROWS, *ROWS]
    odd = written(tmp_path / "c.tsv", as_tsv([("a|b", "label"), *ROWS]))  # whose name has such a line in it
    assert read(odd, "a|b", "label") == ROWS
    with pytest.raises(UserError, match=r"there is no column 'sentense'.*did you mean 'sentence'"):
        read(one, "sentense|text", "label")


def test_quotes_mean_nothing_between_tabs(tmp_path: Path) -> None:
    """MRPC's files: a quote that is opened and never closed is a quote."""
    rows = [('"he said', 'she said "so"', "1"), ("it's", '"', "0")]
    named = as_tsv([("#1 String", "#2 String", "Quality"), *rows])
    assert read(written(tmp_path / "a.txt", named), "#1 String", "#2 String", "Quality") == rows


def test_numbers_that_all_differ_are_no_header(tmp_path: Path) -> None:
    rows = [("a", "0.5"), ("b", "1.5"), ("c", "2.5"), ("d", "3")]
    assert read(written(tmp_path / "a.tsv", as_tsv(rows))) == rows
    assert read(written(tmp_path / "a.tsv", as_tsv([("text", "score"), *rows]))) == rows
    with pytest.raises(UserError, match="line 1 looks like a header: its label 'points' is nowhere else"):
        read(written(tmp_path / "a.tsv", as_tsv([("what", "points"), *rows])))


def test_built_in_pairs() -> None:
    for name, labels in (("inference", {"entailment", "contradiction", "neutral"}), ("similarity", {"4", "0"})):
        found = read_labelled((f"builtin:{name}/valid",))
        assert len(found) == 500
        assert all(len(example.texts) == 2 for example in found)
        assert {example.label for example in found} >= labels


def test_labels_that_are_numbers_or_truths_are_taken_as_written(tmp_path: Path) -> None:
    rows = [("a", 1), ("b", 0.5), ("c", True), ("d", "  x ")]
    assert [row[-1] for row in read(written(tmp_path / "a.jsonl", as_jsonl(rows)))] == ["1", "0.5", "true", "x"]  # type: ignore[arg-type]


def test_the_hub_by_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"sentence": "a", "label": 1}, {"sentence": "b", "label": 0}]
    found = [(f"hf:x, row {n}", row) for n, row in enumerate(rows)]
    monkeypatch.setattr("regard.data.sources.labelled.hub_records", lambda where: iter(found))
    assert read(("hf:x",), "sentence", "label") == read(("hf:x",)) == [("a", "1"), ("b", "0")]
    assert records.hub_records  # what was replaced is there


REFUSED = [
    ("a.tsv", "", (), "a.tsv is empty"),
    ("a.tsv", "text\tlabel\n", ("text", "label"), "there are no texts in it"),
    ("a.tsv", "one\ntwo\n", (), "a.tsv, line 1: columns found: 1"),
    ("a.tsv", "a\tb\tc\td\n", (), "line 1: columns found: 4"),
    ("a.tsv", "a\tx\nb\n", (), "line 2: columns found: 1, expected: 2"),
    ("a.tsv", "a\tx\n \ty\n", (), "line 2: column '0' is empty"),
    ("a.tsv", "a\tx\nb\t \n", (), "line 2: the label in column '1' is empty"),
    ("a.tsv", "one\tother\na\tx\nb\ty\nc\tx\n", (), "line 1 looks like a header: its label 'other' is nowhere else"),
    ("a.tsv", "text\tlabel\na\tx\n", ("text", "lable"), "did you mean 'label'?"),
    ("a.tsv", "a\tx\n", ("0", "7"), "there is no column '7'"),
    ("a.tsv", "t\tt\na\tx\n", ("t", "u"), "two columns are named 't'"),
    ("a.csv", 'a,x\n"b,y\n', (), "line 2: this is not CSV"),
    ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"\n', (), "line 2: this is not JSON"),
    ("a.jsonl", "[1, 2]\n", (), "line 1: list found, object expected"),
    ("a.jsonl", '{"text": 3, "label": "x"}\n', (), "column 'text' holds int"),
    ("a.jsonl", '{"text": "a", "label": "x\\ty"}\n', (), "line 1: the label in column 'label' holds a line end"),
    ("a.jsonl", '{"text": "a", "label": null}\n', (), "column 'label' holds NoneType"),
    ("a.txt", "a\tx\n", (), "a.txt is no table"),
]


@pytest.mark.parametrize(("name", "content", "columns", "told"), REFUSED, ids=[told for *_, told in REFUSED])
def test_what_is_wrong_is_told_by_file_and_line(
    name: str, content: str, columns: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        read_labelled(written(tmp_path / name, content), columns)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("builtin:remark/train", "did you mean 'remarks'"),
        ("builtin:remarks", "Type builtin:remarks/train"),
        ("missing.tsv", "missing.tsv does not exist"),
    ],
)
def test_sources_that_are_none(where: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        read_labelled((where,))


def test_one_text_and_two_do_not_mix(tmp_path: Path) -> None:
    where = (*written(tmp_path / "a.tsv", as_tsv(ROWS)), *written(tmp_path / "b.tsv", as_tsv(PAIRS)))
    with pytest.raises(UserError, match=r"b.tsv, line 1 has two texts and their label, but .*a.tsv, line 1 has one text"):
        read_labelled(where)


def test_a_first_row_that_is_an_example_can_be_said_to_be(tmp_path: Path) -> None:
    rows = [("a", "rare"), ("b", "x"), ("c", "y"), ("d", "x")]
    assert read(written(tmp_path / "a.tsv", as_tsv(rows)), "0", "1") == rows


words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Zs", "Cs")), min_size=1, max_size=12)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_what_python_writes_is_read_back(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    expected = [(text, label.strip()) for text, label in rows]
    if not all(label and label.isprintable() for _, label in expected):
        return
    for name, content, columns in (("a.csv", as_csv([*rows]), ("0", "1")), ("a.jsonl", as_jsonl([*rows]), ())):
        assert read(written(tmp_path / name, content), *columns) == expected


def test_a_long_document_is_no_mistake(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(as_csv([("word " * 60_000, "x"), ("short", "y")]), "utf-8")  # csv's own limit is 131,072 characters
    assert [len(example.text) for example in read_labelled((str(path),), ("0", "1"))] == [300_000, 5]
