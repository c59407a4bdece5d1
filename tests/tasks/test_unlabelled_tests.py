"""Test sets without labels, as GLUE has them: training says so and scores nothing, and `evaluate` says what to do instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.data.sources.labelled import lacks_labels
from tests.command import refused, regard
from tests.tasks import tiny_labels, tiny_tags

TEXTS = [text for text, _ in tiny_labels.ROWS[:4]]


def table(*cells: str) -> str:
    return "".join(cell.format(n=n, text=text) + "\n" for n, text in enumerate(TEXTS) for cell in cells)


FILES = {
    "index.tsv": "index\tsentence\n" + table("{n}\t{text}"),
    "one.tsv": table("{text}"),
    "minus.tsv": "sentence\tlabel\tidx\n" + table("{text}\t-1\t{n}"),
    "empty.csv": "id,text,label\n" + table("{n},{text},"),
    "bare.tsv": table("{text}\t-1"),
    "no.jsonl": "".join(json.dumps({"idx": n, "sentence": text}) + "\n" for n, text in enumerate(TEXTS)),
    "minus.jsonl": "".join(json.dumps({"text": text, "label": -1}) + "\n" for text in TEXTS),
    "null.jsonl": "".join(json.dumps({"text": text, "label": None}) + "\n" for text in TEXTS),
}


@pytest.mark.parametrize("name", FILES)
def test_a_test_without_labels(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    assert lacks_labels((str(tmp_path / name),), ())
    train = tiny_labels.write_rows(tmp_path / "train.tsv", tiny_labels.ROWS)
    settings = (f"data.train={train}", f"data.valid={train}", f"data.test={tmp_path / name}", *tiny_labels.TINY)
    settings = tuple(setting for setting in settings if setting != "data.test=")
    told = regard("train", "bert-classify", *settings, "--dry-run", "--out", tmp_path / "run")
    assert told.code == 0, told.err
    assert f"test: {tmp_path / name} has no labels, so there is nothing to score" in told.err
    result = regard("evaluate", tiny_labels.trained(), f"data.test={tmp_path / name}", "--device", "cpu")
    refused(result, "has no labels", f"regard predict RUN --input {tmp_path / name}")
    assert regard("predict", tiny_labels.trained(), "--input", tmp_path / name, "--device", "cpu").code == 0


def test_some_labels_are_labels(tmp_path: Path) -> None:
    for name, content in {
        "some.tsv": "sentence\tlabel\n" + table("{text}\t-1") + "a\tgood\n",
        "all.tsv": table("{text}\tgood"),
        "some.jsonl": json.dumps({"text": "a", "label": "good"}) + "\n" + FILES["null.jsonl"],
    }.items():
        (tmp_path / name).write_text(content)
        assert not lacks_labels((str(tmp_path / name),), ())
    (tmp_path / "chosen.tsv").write_text("what\tsort\n" + table("{text}\tgood"))
    assert not lacks_labels((str(tmp_path / "chosen.tsv"),), ("what", "sort"))
    assert lacks_labels((str(tmp_path / "chosen.tsv"),), ("what", "other"))
    assert not lacks_labels((str(tmp_path / "nowhere.tsv"),), ())
    assert not lacks_labels((), ())


def test_a_treebank_without_tags(tmp_path: Path) -> None:
    lines = ["\n".join(f"{n}\t{word}" + "\t_" * 8 for n, word in enumerate(words, 1)) for words, _ in tiny_tags.ROWS[:3]]
    (tmp_path / "test.conllu").write_text("\n\n".join(lines) + "\n")
    train = tiny_tags.write_rows(tmp_path / "train.conll", tiny_tags.ROWS)
    test = f"data.test={tmp_path / 'test.conllu'}"
    settings = [setting for setting in tiny_tags.TINY if setting != "data.test="]
    told = regard(
        "train", "bert-tag", f"data.train={train}", f"data.valid={train}", test, *settings, "--dry-run", "--out", tmp_path / "run"
    )
    assert told.code == 0, told.err
    assert "has no tags, so there is nothing to score" in told.err
    refused(regard("evaluate", tiny_tags.trained(), test, "--device", "cpu"), "has no tags", "regard predict RUN --input")
