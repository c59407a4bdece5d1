"""`regard lens --word` given what it cannot look at: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import contents, refused, regard, trained
from tests.tasks import tiny_labels, tiny_text

TWO = ["the cat sees the dog .", "the dog sees the cat ."]
MISTYPED = [
    ([*TWO, "--word", ""], "--word is an empty text"),
    ([*TWO, "--word", " \t"], "the word is empty"),
    ([*TWO, "--word", "horse"], "'horse' is not in any of the 2 sentences"),
    ([*TWO, "--word", "ca"], "'ca' is not in any", "did you mean 'cat'?"),
    ([TWO[0], "--word", "bird"], "'bird' is not in the sentence", "known: cat"),
    ([TWO[0], "--word", "cat"], "used once only, in sentence 1", "another sentence"),
    (["--word", "cat"], "--word cat needs sentences", "--file FILE"),
    ([*TWO, "", "--word", "cat"], "sentence 3 is empty"),
    ([*TWO, "caf\udce9", "--word", "cat"], "sentence 3 holds half a character"),
    ([*TWO, "the cat\ta\tb", "--word", "cat"], "sentence 3: columns found: 3"),
    ([TWO[0], f"{TWO[1]}\tpet", "--word", "cat"], "sentence 2 has a sense ('pet'), sentence 1 has none"),
    ([*TWO, "the cat\t", "--word", "cat"], "sentence 3 ends in a tab"),
    ([*TWO, "--word", "cat", "--part", "encoder"], "--part encoder is not for --word"),
    ([TWO[0], "--file", "x.txt"], "--file x.txt is only for --word"),
    ([TWO[0], "--layer", "2"], "--layer 2 is only for --word"),
    ([*TWO, "--word", "cat", "--layer", "-1"], "--layer -1 is not a layer"),
    ([*TWO, "--word", "cat", "--layer", "last"], "'--layer'", "'regard lens --help'"),
    ([*TWO, "--word", "cat", "--out", "x.jpg"], "x.jpg must end in", ".png"),
    ([*TWO, "--word", "cat", "--out", "no/x.png"], "there is no folder no"),
    ([*TWO, "--word", "cat", "--file", "x.txt"], "both sentences and --file x.txt"),
    (["--word", "cat", "--file", "x.txt"], "x.txt does not exist"),
    (["--word", "cat", "--file", "."], "is a folder"),
]


@pytest.mark.parametrize("case", MISTYPED, ids=lambda case: case[1])
def test_told_before_the_model_is_looked_for(
    case: tuple[list[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, *told = case
    refused(regard("lens", tmp_path / "no-run", *arguments), *told)
    assert contents(tmp_path) == {}


FILES = [
    ("s.txt", b"", "s.txt is empty"),
    ("s.txt", b"\n \n", "s.txt is empty"),
    ("s.txt", b"the cat\nthe caf\xe9 cat\n", "line 2", "is not UTF-8", "iconv"),
    ("s.txt", "the cat\nthe cat".encode("utf-16"), "UTF-16"),
    ("s.txt", b"the cat\0\nthe cat\n", "NUL"),
    ("s.txt", b"the dog\nthe bird\n", "'cat' is not in any of the 2 sentences"),
    ("s.txt", b"the dog\nthe cat\n", "used once only, in", "line 2"),
    ("s.tsv", b"the cat\tpet\nthe cat\n", "line 1 has a sense ('pet')", "line 2 has none"),
    ("s.tsv", b"sense\tthe cat\tmore\n", "columns found: 3"),
    ("s.csv", b'"the cat,pet\n', "is not CSV"),
    ("s.jsonl", b'{"text": "the cat"}\n', "s.jsonl is JSON", "lines of text"),
    ("s.txt.gz", b"the cat", "is not a whole gzip file"),
]


@pytest.mark.parametrize("case", FILES, ids=lambda case: f"{case[0]} {case[2]}")
def test_a_file_without_uses(case: tuple[str, bytes, str], tmp_path: Path) -> None:
    name, content, *told = case
    (tmp_path / name).write_bytes(content)
    refused(regard("lens", tmp_path / "no-run", "--word", "cat", "--file", tmp_path / name), *told)


def test_a_run_that_is_none(tmp_path: Path) -> None:
    refused(regard("lens", tmp_path / "no-run", *TWO, "--word", "cat"), "does not exist")
    refused(regard("lens", tmp_path, *TWO, "--word", "cat"), "is not a run")
    refused(regard("lens", trained(), *TWO, "--word", "cat", "--device", "gpu"), "--device gpu")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    refused(regard("lens", tmp_path, *TWO, "--word", "cat"), "mamba")


def test_a_layer_that_the_model_does_not_have() -> None:
    refused(regard("lens", trained(), *TWO, "--word", "cat", "--layer", "2"), "--layer 2: this model has 1", "from 0")


@pytest.mark.parametrize("run", [trained, lambda: tiny_labels.trained("bert")], ids=["translator", "classifier"])
def test_a_word_that_the_vocabulary_does_not_have(run: object) -> None:
    told = refused(regard("lens", run(), "a zebra .", "the zebra .", "--word", "zebra"), "sentence 1", "'zebra'")  # type: ignore[operator]
    assert "not in this model's vocabulary" in told


def test_a_word_longer_than_the_model_reads() -> None:
    word = "z" * 40
    refused(
        regard("lens", tiny_text.trained(), f"a {word}", word, "--word", word), "40 tokens long", "this model reads 15 at a time"
    )
