"""The benchmark of documents: bars by the mean, no test score where settings are tried, words by how much they are looked at."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import hierarchical
from benchmarks.hierarchical import Seed, most_looked_at, report
from regard.lens.analyses.document import Document, Sentence, Word


def test_bars_are_met_by_the_mean_of_all_seeds() -> None:
    found = report([Seed(0.9, 0.85, 3.0, {}), Seed(0.8, 0.83, 4.0, {})], "regard train ...")
    assert found["mean"] == pytest.approx(0.84)
    assert found["bars"] == {"floor": "0.82 met", "goal": "0.86 not met"}
    assert found["validation"] == [0.9, 0.8]


def test_who_tries_settings_gets_no_test_score() -> None:
    assert "scores" not in report([Seed(0.9, None, 3.0, {})], "regard train ...")


def test_words_are_named_by_their_shade_where_several_reviews_have_them(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "valid.jsonl").write_text("".join(json.dumps({"text": str(n), "label": n % 2}) + "\n" for n in range(8)))

    def looked(answers: object, text: str) -> Document:
        label = int(text) % 2
        words = (Word("Great" if label else "awful", 0.8, False), Word("the", 0.1, True), Word(f"only{text}", 0.1, True))
        return Document(f"{label} (probability 0.9)", (Sentence(words, 1.0),))

    monkeypatch.setattr(hierarchical, "document_of", looked)
    found = most_looked_at(SimpleNamespace(), str(tmp_path / "valid.jsonl"))  # type: ignore[arg-type]
    assert found == {"0": ["awful", "the"], "1": ["great", "the"]}
