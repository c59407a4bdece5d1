"""Outputs of a trained run: both of its tasks, with the prefix each; tables, streams, views; what it cannot read is said."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.data.sources.text_pairs import TextPair
from regard.runs.protocols import Attends, Inspectable, Traceable
from regard.tasks.registry import open_run
from regard.tasks.text_to_text.predict import TextWriter
from tests.command import regard
from tests.tasks.tiny_reports import rows, trained


@cache
def writer() -> TextWriter:
    found = open_run(trained(), "cpu")
    assert isinstance(found, TextWriter)
    return found


def test_each_prefix_is_a_task() -> None:
    text = "the cat sees the dog 3"
    assert writer()(f"last: {text}") == "the dog"
    assert writer()(f"mood: {text}") in ("good", "bad")
    assert writer()([f"last: {text}", "", f"mood: {text}"])[1] == ""


def test_a_text_without_a_prefix_is_refused_where_there_are_several() -> None:
    with pytest.raises(UserError, match=r"begins with none of this model's prefixes.*'last:', 'mood:'"):
        writer()("the cat sees the dog 3")


def test_it_is_scored_as_what_it_writes() -> None:
    test = [TextPair(f"last: {text}", (target, "no")) for text, target in rows(40, 7)]
    found = writer().evaluate(test)
    assert len(found.outputs) == 40
    scores = found.as_dict()
    assert scores["rouge_l"] > 90
    assert scores["exact"] > 80
    assert "refs:2" in scores["rouge_signature"]


def test_a_long_text_is_cut_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    long = "last: " + "the cat sees " * 400
    assert writer()(long) == writer()(" ".join(long.split()[:511]))
    assert "1 of 1 texts have more than 512 tokens, and were cut" in capsys.readouterr().err


def test_it_can_be_looked_into() -> None:
    found = writer()
    assert isinstance(found, Inspectable)
    assert isinstance(found, Traceable)
    assert isinstance(found, Attends)
    text = "last: the cat sees the dog 3"
    subject = found.subject(text)
    assert subject.output_text == "the dog"
    assert len(subject.sides["encoder"]) == 9  # seven words, a colon and the end
    assert found.attention(text)[0] == "the dog"
    assert found.trace(text, 2, []).steps


def test_a_table_comes_back_with_a_column(tmp_path: Path) -> None:
    table = tmp_path / "in.csv"
    table.write_text("id,input,target\n7,last: the cat sees the dog 3,x\n8,,y\n", "utf-8")
    result = regard("predict", trained(), "--input", table, "data.columns=input,target", "--device", "cpu")
    assert result.code == 0, result.err
    assert result.out.splitlines() == ["id,input,target,predicted", "7,last: the cat sees the dog 3,x,the dog", "8,,y,"]


def test_lines_and_json() -> None:
    result = regard(
        "predict", trained(), "last: the cat sees the horse 3", "--json", "--device", "cpu", "decode.search=beam", "decode.beam=2"
    )
    assert json.loads(result.out)["outputs"][0]["text"] == "the horse"
