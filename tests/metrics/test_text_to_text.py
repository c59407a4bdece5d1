"""Outputs scored as text, labels or numbers; what is none of the labels or no number is wrong, and counted."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.metrics import f1_score

from regard.metrics.bleu import corpus_scores
from regard.metrics.correlation import correlation
from regard.metrics.rouge import corpus_rouge
from regard.metrics.text_to_text import METRIC, LabelScores, NumberScores, number, score_texts


def test_text_has_every_score() -> None:
    outputs, references = ["the pump leaks", "all is well"], [["the pump still leaks", "a pump leaks"], ["all is well"]]
    found = score_texts(outputs, references, "text").as_dict()
    assert found["rouge_l"] == corpus_rouge(outputs, references).rougeL
    assert found["bleu"] == corpus_scores(outputs, references).bleu
    assert found["exact"] == 50
    assert json.dumps(found)
    assert "ROUGE" in score_texts(outputs, references, "text").lines()[0]


def test_labels_equal_sklearn_where_every_output_is_one() -> None:
    true, said = list("aabbbcca"), list("abbbacca")
    found = score_texts(said, [[label] for label in true], "labels")
    assert isinstance(found, LabelScores)
    assert found.macro_f1 == pytest.approx(f1_score(true, said, average="macro"))
    assert found.accuracy == 6 / 8
    assert found.unknown == 0


def test_an_output_that_is_no_label_is_wrong_and_counted() -> None:
    found = score_texts(
        ["positive", "postive", "", "negative "], [["positive"], ["positive"], ["negative"], ["negative"]], "labels"
    )
    assert isinstance(found, LabelScores)
    assert (found.accuracy, found.unknown, found.labels) == (0.5, 2, ("negative", "positive"))
    assert found.macro_f1 == pytest.approx(2 / 3)
    assert "2 outputs are no label" in found.lines()[0]
    assert json.dumps(found.as_dict())


def test_numbers_are_correlated_and_others_count_as_the_mean() -> None:
    found = score_texts(["1.0", "3 . 2", "none", "5"], [["1"], ["3"], ["4"], ["5"]], "numbers")
    assert isinstance(found, NumberScores)
    said = np.array([1.0, 3.2, 3.25, 5.0])
    assert found.as_dict()["pearson"] == pytest.approx(correlation(np.array([1.0, 3.0, 4.0, 5.0]), said))
    assert found.unknown == 1
    assert json.dumps(found.as_dict())


def test_what_is_a_number() -> None:
    assert [number(text) for text in ("2.6", " 3 ", "-1", "1e2", "a", "", "nan", "inf")] == [
        2.6,
        3,
        -1,
        100,
        None,
        None,
        None,
        None,
    ]


def test_every_kind_has_the_score_that_chooses_weights() -> None:
    for answers, name in METRIC.items():
        found = score_texts(["1", "2"], [["1"], ["2"]], answers).as_dict()  # type: ignore[arg-type]
        assert math.isfinite(found[name])
