"""Regression in the task `classification`: numbers learned from files, predicted, scored, and listed by how far off they are."""

from __future__ import annotations

import json
import shutil
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.sources.labelled import Example
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.classification.predict import Regressor
from regard.tasks.classification.prepare import prepare
from regard.tasks.registry import open_run
from tests.command import regard as command
from tests.tasks.explained import explained_as_it_is
from tests.tasks.tiny_labels import THINGS, TINY, quiet, train_as, write_rows

RATED = [  # by which of the two is nice
    (f"a {'nice' if one else 'wet'} {a}", f"the {'nice' if other else 'big'} {b}", f"{2 * one + other / 2:.1f}")
    for n, (a, b) in enumerate(product(THINGS, THINGS))
    for one, other in [divmod(n % 4, 2), divmod((n + 1) % 4, 2)]
]
_kept = TemporaryDirectory(prefix="regard-tests-")


def rating(data: Path, *settings: str) -> Recipe:
    return load_recipe("bert-similarity", [f"data.train={data}", f"data.valid={data}", *TINY, *settings])


@cache
def trained() -> Path:
    """To be read, not changed."""
    data = write_rows(Path(_kept.name) / "rated.tsv", RATED)
    longer = ("train.steps=80", "train.validate_every=80", "train.checkpoint_every=80", "train.learning_rate=5e-3")
    train_as(rating(data, f"data.test={data}", *longer), Path(_kept.name) / "run")
    return Path(_kept.name) / "run"


def rater(*settings: str) -> Regressor:
    found = open_run(trained(), "cpu", settings)
    assert isinstance(found, Regressor)
    return found


def told(found: Regressor, texts: list[str], as_json: bool = False) -> str:
    pieces: list[str] = []
    found.predict(texts, 0, as_json, pieces.append)
    return "".join(pieces)


def test_numbers_are_learned() -> None:
    found = rater()
    said = found([(a, b) for a, b, _ in RATED])
    true = [float(label) for *_, label in RATED]
    assert np.corrcoef(said, true)[0, 1] > 0.9
    assert np.abs(np.array(said) - true).mean() < 0.4  # always saying the mean: 1
    assert found(RATED[0][:2]) == pytest.approx(said[0], abs=1e-5)


def test_a_run_has_all_that_people_need() -> None:
    run = trained()
    scale = json.loads((run / "labels.json").read_text())
    assert (scale["lowest"], scale["highest"], scale["texts"]) == (0.0, 2.5, 2)
    card = (run / "README.md").read_text()
    for part in ("Pearson", "Spearman", "off by", "72 pairs of texts, numbers from 0 to 2.5"):
        assert part in card, part
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    true = np.array([float(label) for *_, label in RATED])
    off = np.abs(np.array(rater()([(a, b) for a, b, _ in RATED])) - true).mean()
    assert metrics[-1]["valid_off_by"] == pytest.approx(off, abs=1e-3)
    assert metrics[-1]["valid_nll"] < 0.1  # always saying the mean: 0.5
    assert "  model      " in (run / "samples.txt").read_text()
    assert json.loads((run / "data.json").read_text())["seals"]["labels.json"]


def test_lines_for_people_and_machines() -> None:
    found, (a, b, _) = rater(), RATED[0]
    number = found((a, b))
    assert told(found, [f"{a}\t{b}", " "]) == f"{number:.4f}\n\n"
    records = [json.loads(line) for line in told(found, [f"{a}\t{b}", ""], as_json=True).splitlines()]
    assert records[0] == {"text": f"{a}\t{b}", "number": pytest.approx(number, abs=1e-6)}
    assert records[1] == {"text": "", "number": None}
    with pytest.raises(UserError, match="put a tab between the two"):
        told(found, [a])
    with pytest.raises(UserError, match="trained on pairs of texts; give 2, not 1"):
        found(a)


def test_a_test_set_is_scored_and_listed_by_how_far_off(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    found: Any = open_run(run, "cpu")
    test = [Example(a, b, "9.5" if n == 4 else label, f"line {n}") for n, (a, b, label) in enumerate(RATED[:12])]
    result = found.evaluate(test)
    said = found([example.texts for example in test])
    header, *lines = [line.split("\t") for line in (run / "errors.tsv").read_text().splitlines()]
    assert header == ["text", "second", "label", "predicted", "off"]
    assert len(lines) == 12
    assert lines[0][:3] == [*test[4].texts, "9.5"]
    off = [abs(float(line[4])) for line in lines]
    assert off == sorted(off, reverse=True)
    assert off[0] == pytest.approx(9.5 - said[4], abs=1e-3)
    assert result.outputs == [f"{number:.4f}" for number in said]
    assert result.lines()[-1] == f"12 texts, the farthest off first: {run / 'errors.tsv'}"


def test_through_the_commands(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    a, b, _ = RATED[0]
    predicted = command("predict", run, f"{a}\t{b}", "--device", "cpu")
    assert predicted.code == 0, predicted.err
    assert float(predicted.out) == pytest.approx(regard.load(str(run), "cpu")((a, b)), abs=1e-3)
    scored = command("evaluate", run, "--json", "--device", "cpu")
    assert json.loads(scored.out)["pearson"] > 0.9
    other = write_rows(tmp_path / "other.tsv", [(a, b, "high")])
    refused = command("evaluate", run, f"data.test={other}", "--device", "cpu")
    assert refused.code == 2
    assert "other.tsv, line 1: the label 'high' is not a number" in refused.err


def test_numbers_as_classes_and_classes_as_numbers_are_told_apart(tmp_path: Path) -> None:
    many = write_rows(tmp_path / "many.tsv", [(f"text {n}", f"{n / 7:.3f}") for n in range(40)])
    with pytest.raises(UserError, match=r"all are numbers, such as '0\.000'.*set objective\.name=regression"):
        prepare(rating(many, "objective.name=classification"), None, quiet)
    words = write_rows(tmp_path / "words.tsv", [("a", "good"), ("b", "bad")])
    with pytest.raises(UserError, match=r"the label 'good' is not a number"):
        prepare(rating(words), None, quiet)


def test_what_the_data_looks_like_is_said(tmp_path: Path) -> None:
    lines: list[str] = []
    prepare(rating(write_rows(tmp_path / "rated.tsv", RATED)), None, lines.append)
    assert "train: 72 pairs of texts: from 0 to 2.5; always saying their mean, 1.25, is off by 1.00" in lines


def test_it_is_explained_with_its_own_parts() -> None:
    explained_as_it_is(trained())
