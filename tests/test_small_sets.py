"""The benchmark of small sets: what is held out, what is typed, and that it goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import measure, small_sets
from benchmarks.small_sets import TRAIN, VALID, Row, inference, main, sampled, settings, typed
from benchmarks.trained import Trained
from regard.core.errors import UserError
from regard.data.sources.labelled import read_labelled


def test_what_is_tested_is_neither_trained_on_nor_chosen_by() -> None:
    splits = inference()
    assert {split: len(rows) for split, rows in splits.items()} == {"train": TRAIN, "valid": VALID, "test": 1_000}
    pairs = {split: {tuple(row.values())[:2] for row in rows} for split, rows in splits.items()}
    assert not pairs["train"] & pairs["valid"]
    assert not pairs["test"] & (pairs["train"] | pairs["valid"])
    assert splits == inference(), "the same for every seed of training"


def test_nothing_is_typed_but_the_start_and_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MINILM", str(tmp_path))
    rows: list[Row] = [{"sentence1": 'a "b"', "sentence2": f"c\t{n}", "label": str(n % 2)} for n in range(4)]
    given = settings({"train": rows, "valid": rows[:2], "test": rows[2:]}, tmp_path)
    assert [setting.partition("=")[0] for setting in given] == ["task.init_from", "data.train", "data.valid", "data.test"]
    read = read_labelled([given[1].partition("=")[2]])
    assert [(*example.texts, example.label) for example in read] == [tuple(row.values()) for row in rows]


def test_seeds_are_recorded_as_they_come_and_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [{"sentence": f"{n}", "label": str(n % 3 == 0)} for n in range(TRAIN + VALID)]
    trained: list[str] = []

    def train(recipe: str, given: list[str]) -> Trained:
        trained.append(given[-1])
        if len(trained) == 2:
            raise KeyboardInterrupt
        return Trained({"accuracy": 0.8, "mcc": 0.5, "macro_f1": 0.7}, 1.0, 0.9)

    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    monkeypatch.setenv("REGARD_MINILM", str(tmp_path))
    monkeypatch.setattr(small_sets, "SETS", {"some": small_sets.Small("finetune-classify", "", lambda: sampled(rows, rows[:9]))})
    monkeypatch.setattr(small_sets, "trained", train)
    monkeypatch.setattr(small_sets, "frozen", lambda splits: {"accuracy": 0.7, "mcc": 0.1})
    with pytest.raises(KeyboardInterrupt):
        main(["some"])
    main(["some"])
    assert trained == ["train.seed=1", "train.seed=2", "train.seed=2", "train.seed=3"]
    (path,) = tmp_path.glob("small_sets.*.json")
    found: dict[str, Any] = json.loads(path.read_text())["sets"]["some"]
    assert list(found["seeds"]) == ["1", "2", "3"]
    assert found["majority"] == pytest.approx(6 / 9)
    assert found["least_above_majority"] == pytest.approx(0.8 - 6 / 9)


def test_what_is_typed() -> None:
    assert typed(["cola", "seeds=1,4"]) == (["cola"], [1, 4])
    assert typed([]) == ([], [1, 2, 3])
    with pytest.raises(UserError, match="no data set 'coal'"):
        main(["coal"])
