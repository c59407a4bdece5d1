"""`regard predict --input TABLE`: a table in, a table out; each row is answered as its text alone would be."""

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
    return regard("predict", trained(pairs=pairs), "--input", path, *settings, "--device", "cpu")


def spreadsheet(rows: list[list[str]]) -> bytes:
    """As Excel saves it: a mark, quotes and Windows' line ends."""
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode("utf-8-sig")


def answers(*texts: str, pairs: bool = False) -> list[list[str]]:
    """Label and probability, typed one by one."""
    return [line.split("\t") for line in said(*texts, pairs=pairs).splitlines()]


@settings(max_examples=8)
@given(st.permutations(["Review Text", "id", "Sentiment", "note"]))
def test_a_table_comes_back_with_columns_behind_its_own(order: list[str]) -> None:
    row = {"id": "7", "Sentiment": "", "note": 'a "quoted", long\nnote'}
    rows = [[{**row, "Review Text": text}[name] for name in order] for text in TEXTS]
    with command.TemporaryDirectory() as folder:
        path = Path(folder) / "reviews.CSV"
        path.write_bytes(spreadsheet([order, *rows]))
        chosen, guessed = predicted(path, "data.columns=Review Text,Sentiment"), predicted(path)
    assert chosen.out == guessed.out
    assert "the text is 'Review Text', by its header" in guessed.err
    header, *found = csv.reader(io.StringIO(chosen.out, newline=""))
    assert header == [*order, "predicted", "probability"]
    assert found == [[*row, *answer] for row, answer in zip(rows, answers(*TEXTS))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labelled.tsv", "".join(f"{text}\tbad\n" for text in TEXTS)),
        ("alone.tsv", "".join(f"{text}\n" for text in TEXTS)),
        ("headed.tsv", "sentence\n" + "".join(f"{text}\n" for text in TEXTS)),
        ("index.tsv", "index\tsentence\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(TEXTS))),
    ],
)
def test_rows_without_a_choice_of_columns(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    headed = ["\tpredicted\tprobability"] if "sentence" in content else []
    behind = [*headed, *("\t" + "\t".join(answer) for answer in answers(*TEXTS))]
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        assert predicted(path).out == "".join(f"{row}{new}\n" for row, new in zip(content.splitlines(), behind, strict=True))
    (tmp_path / "plain.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    assert predicted(tmp_path / "plain.txt").out == said(*TEXTS)


@pytest.mark.parametrize("key", ["text", "sentence"])
def test_json_lines_keep_their_fields(key: str, tmp_path: Path) -> None:
    rows = [{"id": n, key: text, "label": "true", "more": [1, {"a": None}]} for n, text in enumerate(TEXTS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [json.loads(line) for line in predicted(tmp_path / "rows.jsonl").out.splitlines()]
    for row, one, (label, probability) in zip(rows, found, answers(*TEXTS), strict=True):
        assert list(one.items())[: len(row)] == list(row.items())
        assert (one["predicted"], f"{one['probability']:.4f}") == (label, probability)
        assert one["probabilities"][label] == one["probability"]


def test_what_comes_out_is_what_output_ends_with(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f'id,text,predicted\n1,{TEXTS[0]},x\n2,"{TEXTS[1]}\n\tthere",y\n')
    run, typed = trained(), (TEXTS[0], f"{TEXTS[1]} there")
    for name in ("out.csv", "out.tsv", "out.jsonl", "out.txt"):
        assert regard("predict", run, "--input", tmp_path / "in.csv", "--output", tmp_path / name, "--device", "cpu").code == 0
    (a, p), (b, q) = answers(*typed)
    header, first, second = (tmp_path / "out.tsv").read_text().splitlines()
    assert header == "id\ttext\tpredicted\tpredicted_2\tprobability"
    assert first == f"1\t{TEXTS[0]}\tx\t{a}\t{p}"
    assert second == f"2\t{TEXTS[1]}\\n\\tthere\ty\t{b}\t{q}"
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(line["id"], line["predicted"], line["predicted_2"]) for line in lines] == [("1", "x", a), ("2", "y", b)]
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "out.txt").read_text()
    assert lines == [
        json.loads(line) for line in regard("predict", run, "--input", tmp_path / "in.csv", "--json").out.splitlines()
    ]


@settings(max_examples=25)
@given(st.lists(st.sampled_from([*TEXTS, "", " "]), min_size=1, max_size=140), st.sampled_from(["csv", "tsv", "jsonl", "txt"]))
def test_answers_stand_beside_their_texts(texts: list[str], kind: str) -> None:
    """In whatever order, however often, and with nothing beside an empty one; there are more than are answered together."""
    by_text = {**dict(zip(TEXTS, answers(*TEXTS))), "": ["", ""], " ": ["", ""]}
    with command.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows.{kind}"
        if kind == "jsonl":
            path.write_text("".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in enumerate(texts)))
        elif kind == "txt":
            path.write_text("".join(f"{text}\n" for text in texts))
        else:
            tab = "," if kind == "csv" else "\t"
            path.write_text(
                "".join(f"{cell}\n" for cell in [f"n{tab}text", *(f"{n}{tab}{text}" for n, text in enumerate(texts))])
            )
        result = predicted(path)
    empty = sum(not text.strip() for text in texts)
    if kind == "jsonl":
        lines = [json.loads(line) for line in result.out.splitlines()]
        rows = [[line["n"], line["text"], line["predicted"] or "", line["probability"]] for line in lines]
        rows = [[n, text, label, "" if p is None else f"{p:.4f}"] for n, text, label, p in rows]
    elif kind == "txt":
        rows = [
            [n, text, *(line.split("\t") if line else ("", ""))]
            for n, (text, line) in enumerate(zip(texts, result.out.split("\n")))
        ]
    else:
        rows = [[int(n), *row] for n, *row in list(csv.reader(result.out.splitlines(), delimiter=tab))[1:]]
    for n, (text, row) in enumerate(zip(texts, rows, strict=True)):
        label, probability = by_text[text]
        assert row[:3] == [n, text, label]
        assert row[3] == probability or abs(float(row[3]) - float(probability)) < 2e-4  # other texts beside it, another sum
    assert (f"{empty} of {len(texts)} rows have no text" in result.err) == (empty > 0 and kind != "txt")


def test_pairs(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("".join(f"{one},{other},{label}\n" for one, other, label in PAIRS[:4]))
    typed = [f"{one}\t{other}" for one, other, _ in PAIRS[:4]]
    behind = [",".join(answer) for answer in answers(*typed, pairs=True)]
    rows = (tmp_path / "pairs.csv").read_text().splitlines()
    assert predicted(tmp_path / "pairs.csv", pairs=True).out.splitlines() == [f"{r},{new}" for r, new in zip(rows, behind)]


def test_a_tab_inside_a_text_parts_no_pair(tmp_path: Path) -> None:
    """In a quoted cell it is white space as any other."""
    one, other, _ = PAIRS[0]
    (tmp_path / "pairs.csv").write_text(f'premise,hypothesis\n"{one.replace(" ", chr(9), 1)}",{other}\n')
    told = predicted(tmp_path / "pairs.csv", pairs=True).out.splitlines()[1].split(",")[-2:]
    assert told == answers(f"{one}\t{other}", pairs=True)[0]


def test_more_rows_than_are_answered_together(tmp_path: Path) -> None:
    (tmp_path / "many.tsv").write_text("".join(f"{TEXTS[n % 5]}\tbad\n" for n in range(150)))
    lines = [line.split("\t") for line in predicted(tmp_path / "many.tsv").out.splitlines()]
    assert [line[0] for line in lines] == TEXTS * 30
    assert [line[2] for line in lines] == [label for label, _ in answers(*TEXTS)] * 30


def test_a_label_before_the_text_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"{n % 2}\tthe cat number {n}\n" for n in range(30)))
    refused(predicted(tmp_path / "a.tsv"), "column '0'", "data.columns=1,0")
    assert predicted(tmp_path / "a.tsv", "data.columns=1,0").out.splitlines()[3].startswith("1\tthe cat number 3\t")


def test_a_header_that_leaves_a_doubt(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,words of wisdom\n" + "".join(f"{n},{text}\n" for n, text in enumerate(TEXTS)))
    refused(predicted(tmp_path / "a.csv"), "'data.columns=words of wisdom,label'")
    header, *rows = csv.reader(predicted(tmp_path / "a.csv", "data.columns=words of wisdom,label").out.splitlines())
    assert header == ["id", "words of wisdom", "predicted", "probability"]
    assert [row[2:] for row in rows] == answers(*TEXTS)


def test_a_translation_beside_its_source(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,en\n1,"the cat sees the dog ."\n2,\n')
    (source, empty) = list(csv.reader(regard("predict", command.trained(), "--input", tmp_path / "a.csv").out.splitlines()))[1:]
    assert source[2] == regard("predict", command.trained(), "the cat sees the dog .").out.strip()
    assert empty == ["2", "", ""]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (
            "wide.csv",
            "1,a,b,bad\n",
            ("wide.csv, line 1: columns found: 4", "expected: 1, or one more for a label", "data.columns"),
        ),
        ("names.jsonl", '{"blob": "a"}\n', ("names.jsonl, line 1", "no column 'text'")),
        ("pair.csv", "premise,hypothesis\na,b\n", ("pair.csv, line 1", "expected: 1", "data.columns=premise,label")),
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
    run = tiny_questions.trained()
    refused(regard("predict", run, "--input", tmp_path / name), f"{name} is no list of texts", "one text on each line")


def test_a_question_and_its_text_in_a_tsv(tmp_path: Path) -> None:
    typed = "Which animal?\ta cat and a dog"
    (tmp_path / "asked.tsv").write_text(f"{typed}\n")
    run = tiny_questions.trained()
    assert regard("predict", run, "--input", tmp_path / "asked.tsv").out == regard("predict", run, typed).out
