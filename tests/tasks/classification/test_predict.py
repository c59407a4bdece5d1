"""Answers of a trained classifier: the same alone and together, for people, machines and Python, with its mistakes listed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.core.errors import UserError
from regard.data.sources.labelled import Example
from regard.model.probe import probe
from regard.tasks.registry import open_run
from tests.command import regard as command
from tests.tasks.tiny_labels import PAIRS, ROWS, labeller, trained, write_rows

WORDS = ["the", "old", "cat", "is", "not", "nice", "today", "zebra", ",", "漢字"]


def told(found: Any, texts: list[str], as_json: bool = False) -> str:
    pieces: list[str] = []
    found.predict(texts, 0, as_json, pieces.append)
    return "".join(pieces)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=8))
@settings(max_examples=25)
def test_company_changes_no_answer(texts: list[str]) -> None:
    found = labeller()
    together = found.classify(texts)
    for text, answer in zip(texts, together):
        (alone,) = found.classify([text])
        assert list(answer.probabilities) == ["bad", "good"]
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.label == max(answer.probabilities, key=lambda label: answer.probabilities[label])
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_probabilities_are_the_models_own() -> None:
    found, text = labeller(), ROWS[7][0]
    ids = [found.reader.marks.start, *found.reader.tokenizer.encode(text), found.reader.marks.end]
    with torch.no_grad():
        expected = found.model(torch.tensor([ids]), torch.tensor([len(ids)])).softmax(-1)[0]
    assert list(found.classify([text])[0].probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-6)


def test_small_batches_change_no_answer() -> None:
    texts = [text for text, _ in ROWS]
    one, other = (labeller("gpt", False, f"decode.batch_tokens={budget}").classify(texts) for budget in (1, 4096))
    for a, b in zip(one, other):
        assert a.probabilities == pytest.approx(b.probabilities, abs=1e-5)


def test_lines_for_people() -> None:
    found = labeller()
    lines = told(found, [ROWS[0][0], "  ", ROWS[1][0]]).split("\n")
    assert [line.split("\t")[0] for line in lines] == [ROWS[0][1], "", ROWS[1][1], ""]
    assert float(lines[0].split("\t")[1]) == pytest.approx(found.classify([ROWS[0][0]])[0].probabilities[ROWS[0][1]], abs=1e-4)


def test_lines_for_machines() -> None:
    records = [json.loads(line) for line in told(labeller(), [ROWS[0][0], ""], as_json=True).splitlines()]
    assert records[0]["text"] == ROWS[0][0]
    assert records[0]["label"] == ROWS[0][1]
    assert set(records[0]["probabilities"]) == {"bad", "good"}
    assert records[1] == {"text": "", "label": None, "probabilities": {}}


def test_in_python() -> None:
    found = regard.load(str(trained()), "cpu")
    assert found(ROWS[0][0]) == ROWS[0][1]
    assert found([text for text, _ in ROWS[:4]]) == [label for _, label in ROWS[:4]]
    assert found.classify([]) == []
    with probe(found.model) as seen:
        found(ROWS[0][0])
    assert list(seen) == ["decoder.0.self"]


def test_pairs_have_a_tab_between_them() -> None:
    found = labeller("bert", True)
    a, b, _ = PAIRS[0]
    assert told(found, [f"{a}\t{b}"]).split("\t")[0] == found((a, b))
    for text in (a, f"{a}\t", f"\t{b}"):
        with pytest.raises(UserError, match="put a tab between the two"):
            told(found, [text])
    with pytest.raises(UserError, match="trained on pairs of texts; give 2, not 1"):
        found(a)
    with pytest.raises(UserError, match="trained on single texts; give 1, not 2"):
        labeller()((a, b))


def test_texts_that_are_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    long = "the old cat is not nice " * 9
    with pytest.raises(UserError, match=r"'the old cat .* is 56 tokens long, its marks counted, but the model has 24 positions"):
        labeller()(long)
    found = labeller("gpt", False, "data.maximum_tokens=12")
    assert found([long, "the cat"])[0] == found("the old cat is not nice the old cat is")
    assert "1 of 2 texts were longer than data.maximum_tokens=12 and have been cut" in capsys.readouterr().err


def test_a_test_set_is_scored_and_its_mistakes_are_listed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    found: Any = open_run(run, "cpu")
    wrong = {3: "a\ttab, a \\ and\ntwo lines is not nice", 5: "the old cat is nice", 9: "the wet dog is not nice today"}
    test = [Example(wrong.get(n, text), None, label, f"line {n}") for n, (text, label) in enumerate(ROWS[:12])]
    answers = found.classify([example.text for example in test])
    expected = [n for n, (example, answer) in enumerate(zip(test, answers)) if example.label != answer.label]
    assert expected  # 5 and 9 contradict what was learned
    result = found.evaluate(test)
    assert result.outputs == [answer.label for answer in answers]
    assert result.scores.accuracy == pytest.approx(1 - len(expected) / 12)
    nll = -np.mean([np.log(answer.probabilities[example.label]) for example, answer in zip(test, answers)])
    assert result.scores.nll == pytest.approx(nll, rel=1e-4)
    header, *lines = [line.split("\t") for line in (run / "errors.tsv").read_text().splitlines()]
    assert header == ["text", "label", "predicted", "probability"]
    assert len(lines) == len(expected)
    sure = [float(line[3]) for line in lines]
    assert sure == sorted(sure, reverse=True)
    unescaped = {line[0].replace("\\t", "\t").replace("\\n", "\n").replace("\\\\", "\\") for line in lines}
    assert unescaped == {test[n].text for n in expected}
    assert f"{len(expected):,} mistakes, the surest first: {run / 'errors.tsv'}" == result.lines()[-1]


def test_mistakes_that_cannot_be_written_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    result = labeller().evaluate([Example("the old cat is nice", None, "bad", "line 1")])
    assert result.lines()[-1] == "1 mistakes; not listed, since the run's folder cannot be written"


def test_through_the_commands(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    predicted = command("predict", run, ROWS[0][0], "--device", "cpu")
    assert predicted.code == 0, predicted.err
    assert predicted.out.split("\t")[0] == ROWS[0][1]
    scored = command("evaluate", run, "--json", "--device", "cpu", "--output", tmp_path / "said.txt")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["labels"] == ["bad", "good"]
    assert len((tmp_path / "said.txt").read_text().splitlines()) == len(ROWS)
    other = write_rows(tmp_path / "other.tsv", [("the cat is nice", "good"), ("the cat", "ugly")])
    refused = command("evaluate", run, f"data.test={other}", "--device", "cpu")
    assert refused.code == 2
    assert "other.tsv, line 2: the label 'ugly' is not one that training knows" in refused.err
