"""Text to text with what cannot be: one sentence each, before anything is trained or written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.command import Result, refused, regard
from tests.tasks.tiny_reports import TINY, data, moods, rows, trained, write_jsonl

DATA, MOODS = "{data}", "{moods}"
WRONG = [
    (["data.columns=input"], "data.columns has 1 names; give input,target"),
    (["data.columns=input,input"], "names a column twice"),
    (["data.columns=input,summary"], "there is no column 'summary'", "data.columns=INPUT,TARGET"),
    (["data.references=others"], "there is no column 'others'", "data.references=NAME"),
    (["data.references=target", "data.answers=labels"], "data.references=target is for data.answers=text"),
    (["data.answers=words"], "data.answers=words is not a choice"),
    (["data.answers=numbers"], "line 1: the target 'the", "is no number, and data.answers=numbers; correct it"),
    (["data.step=0.2"], "data.step=0.2 rounds numbers, and data.answers=text"),
    (["data.answers=numbers", "data.step=-1"], "data.step=-1.0 must be 0 (as they are) or more"),
    (["data.weights=many"], "data.weights=many must be a number"),
    (["data.weights=1,2"], "data.weights has 2 numbers for 1 files"),
    (["data.weights=0"], "data.weights has 0, but a weight is a number above 0"),
    (["data.weights=-2"], "data.weights has -2, but"),
    (["data.weights=nan"], "data.weights has nan, but"),
    (["data.weights=inf"], "data.weights has inf, but"),
    (["data.prefixes=a:,b:"], "data.prefixes has 2 entries for 1 files"),
    ([f"data.train={DATA},{MOODS}", "data.prefixes=a:,b:,c:"], "data.prefixes has 3 entries for 2 files"),
    ([f"data.train={DATA},{MOODS}", "data.prefixes=a:,b:", f"data.test={DATA}"], "data.test has 1 files, and data.prefixes"),
    ([f"data.train={DATA},{MOODS}", "data.prefixes=a:,b:", f"data.valid={DATA}"], "data.valid has 1 files, and data.prefixes"),
    (["data.maximum_input=4"], "data.maximum_input=4 must be at least 8"),
    (["data.maximum_target=1"], "data.maximum_target=1 must be at least 2"),
    (["data.maximum_target=2"], "all 270 targets are longer than data.maximum_target=2 tokens; raise it"),
    (["data.train="], "data.train is empty", "give a table with inputs and targets"),
    (["data.valid_fraction=0"], "data.valid is empty", "data.valid_fraction=0.1"),
    (["data.train=no-such.jsonl"], "no-such.jsonl", "does not exist"),
    (["data.train=builtin:report/train"], "did you mean 'reports'?"),
    (["data.train=builtin:reports"], "lacks a split"),
    (["data.train=builtin:stories/train"], "stories"),
    (["data.window=5"], "data.window is not a setting"),
    (["model.family=gpt"], "model.family=gpt is not known for task.name=text_to_text"),
    (["objective.name=denoising"], "objective.name=denoising is not known for task.name=text_to_text"),
    (["text.joint=false"], "text.joint is not a setting"),
    (["task.init_from=nowhere"], "nowhere"),
    (["train.best=rouge"], "train.best=rouge is not a choice", "rouge_l"),
]  # fmt: skip
FILES = {
    "empty.jsonl": ("", "is empty"),
    "not.jsonl": ("the cat\n", "line 1: this is not JSON"),
    "list.jsonl": ('["a", "b"]\n', "line 1: list found, object expected"),
    "names.jsonl": ('{"x": "a", "y": "b", "z": "c"}\n', "which keys are input and target cannot be told"),
    "target.jsonl": ('{"input": "a", "target": "b"}\n{"input": "a", "target": " "}\n', "line 2: column 'target' is empty"),
    "input.jsonl": ('{"input": "", "target": "b"}\n', "line 1: column 'input' is empty, but an input needs text"),
    "none.jsonl": ('{"input": "a", "target": "b"}\n{"input": "c"}\n', "line 2: there is no column 'target'"),
    "null.jsonl": ('{"input": "a", "target": null}\n', "which keys are input and target cannot be told"),
    "lists.jsonl": ('{"input": "a", "target": []}\n', "column 'target' is empty"),
    "listed.jsonl": ('{"input": "a", "target": ["b", 3]}\n', "column 'target' holds int, but text is needed"),
    "half.jsonl": ('{"input": "a\\ud800", "target": "b"}\n', "half a character"),
    "one.tsv": ("the cat\nthe dog\n", "columns found: 1", "expected: input and target"),
    "three.tsv": ("a\tb\tc\nd\te\tf\n", "columns found: 3", "data.columns=0,1"),
    "ragged.tsv": ("a\tb\nc\td\te\n", "columns found: 3, expected: 2"),
    "semicolons.csv": ("a;b\nc;d\n", "parted by semicolons"),
    "plain.txt": ("the cat\tthe dog\n", "is no table", "must be named *.tsv, *.csv, *.jsonl, *.ndjson"),
    "folder": ("", "folder"),
}  # fmt: skip


def train(*settings: str, out: Path) -> Result:
    return regard("train", "summarize", f"data.train={data()}", *TINY, *settings, "--out", out, "--device", "cpu")


@pytest.mark.parametrize(("settings", "told"), [(row[0], row[1:]) for row in WRONG], ids=lambda x: str(x)[:50])
def test_settings_that_cannot_be(settings: list[str], told: tuple[str, ...], tmp_path: Path) -> None:
    typed = [setting.format(data=data(), moods=moods()) for setting in settings]
    refused(train(*typed, out=tmp_path / "run"), *told)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_none(name: str, tmp_path: Path) -> None:
    text, *told = FILES[name]
    if name == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text(text, "utf-8")
    refused(train(f"data.train={tmp_path / name}", out=tmp_path / "run"), name, *told)


def test_a_file_that_is_not_utf8_and_half_a_gzip_file(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("le chat naïf\tx\n".encode("latin-1") * 9)
    refused(train(f"data.train={tmp_path / 'a.tsv'}", out=tmp_path / "run"), "is not UTF-8")
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"the cat\tthe dog\n" * 500)[:40])
    refused(train(f"data.train={tmp_path / 'a.tsv.gz'}", out=tmp_path / "run"), "not a whole gzip file")


def test_the_split_is_named(tmp_path: Path) -> None:
    bad = write_jsonl(tmp_path / "bad.jsonl", [("the cat", "")])
    refused(train(f"data.test={bad}", out=tmp_path / "run"), "data.test: ", "column 'target' is empty")


def test_a_run_is_given_what_it_was_not_trained_for(tmp_path: Path) -> None:
    run = trained()
    refused(regard("predict", run, "the cat sees the dog"), "begins with none of this model's prefixes", "'last:', 'mood:'")
    refused(regard("predict", run, "last: the cat", "decode.stop=x"), "decode.stop")
    refused(regard("predict", run, "last: the cat", "model.width=64"), "model.width=64")
    refused(regard("evaluate", run, f"data.test={data()}"), "data.test has 1 files")
    refused(regard("evaluate", run, f"data.test={data()},{tmp_path / 'none.jsonl'}"), "none.jsonl", "does not exist")


def test_a_table_without_the_columns(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"body": 3}) + "\n")
    refused(regard("predict", trained(), "--input", tmp_path / "in.jsonl", "--device", "cpu"), "in.jsonl")


def test_the_rows_of_these_tests_are_right(tmp_path: Path) -> None:
    """Without what is wrong with them they are trained on."""
    assert rows(3)[0][1] == f"the {rows(3)[0][0].split()[4]}"
    settings = ["train.steps=1", "train.warmup=0", "train.validate_every=1", "train.checkpoint_every=1"]
    assert train(*settings, out=tmp_path / "run").code == 0
