"""Scores of a classifier, against their definitions counted by hand, text by text, and by scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.classification import ClassificationScores

NAMES = ("a", "b", "c", "d")
answers = st.integers(2, 4).flatmap(
    lambda classes: st.tuples(
        st.just(classes), st.lists(st.tuples(st.integers(0, classes - 1), st.integers(0, classes - 1)), min_size=1, max_size=30)
    )
)


def scored(pairs: Sequence[tuple[int, int]], classes: int = 2) -> ClassificationScores:
    true, said = (np.array(side) for side in zip(*pairs))
    return ClassificationScores.of(NAMES[:classes], true, said, nll=0.5)


def f1(pairs: Sequence[tuple[int, int]], label: int) -> tuple[float, float, float]:
    """Precision, recall and their harmonic mean, by counting."""
    right = sum(t == s == label for t, s in pairs)
    said, true = sum(s == label for _, s in pairs), sum(t == label for t, _ in pairs)
    precision, recall = right / said if said else 0.0, right / true if true else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def correlation(pairs: Sequence[tuple[int, int]], classes: int) -> float:
    """Gorodkin's R_K as a correlation of indicator vectors: the covariances summed over classes, as Pearson would."""
    true, said = (np.eye(classes)[[pair[side] for pair in pairs]] for side in (0, 1))
    true, said = true - true.mean(0), said - said.mean(0)
    spread = ((true * true).sum() * (said * said).sum()) ** 0.5
    return float((true * said).sum() / spread) if spread > 1e-12 else 0.0


@given(answers)
@settings(max_examples=150)
def test_every_figure_is_its_definition(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    classes, pairs = drawn
    found = scored(pairs, classes)
    assert found.accuracy == pytest.approx(sum(t == s for t, s in pairs) / len(pairs))
    assert found.constant == pytest.approx(max(sum(t == n for t, _ in pairs) for n in range(classes)) / len(pairs))
    assert found.mcc == pytest.approx(correlation(pairs, classes), abs=1e-9)
    for n, score in enumerate(found.classes()):
        assert score[1:4] == pytest.approx(f1(pairs, n))
        assert score.true == sum(t == n for t, _ in pairs)
    met = [n for n in range(classes) if any(n in pair for pair in pairs)]
    assert found.macro_f1 == pytest.approx(np.mean([f1(pairs, n)[2] for n in met]))
    for true, said in product(range(classes), repeat=2):
        assert found.confusion_CC[true, said] == pairs.count((true, said))


@pytest.mark.filterwarnings("ignore")  # of what is not defined where a class is missing
@given(answers)
@settings(max_examples=60)
def test_as_scikit_learn_has_them(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    from sklearn import metrics

    classes, pairs = drawn
    true, said = zip(*pairs)
    found = scored(pairs, classes)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(true, said))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(true, said, average="macro", zero_division=0))
    assert found.as_dict()["micro_f1"] == pytest.approx(metrics.f1_score(true, said, average="micro"))
    assert found.mcc == pytest.approx(metrics.matthews_corrcoef(true, said), abs=1e-9)


def test_a_constant_answer_is_worth_nothing() -> None:
    found = scored([(0, 0)] * 9 + [(1, 0)])
    assert (found.accuracy, found.constant, found.mcc) == (0.9, 0.9, 0.0)
    assert found.macro_f1 == pytest.approx(0.5 * 18 / 19)
    assert scored([(0, 0), (1, 1)]).mcc == 1.0
    assert scored([(0, 1), (1, 0)]).mcc == -1.0


def test_large_counts_do_not_overflow() -> None:
    confusion = np.array([[10**9, 1], [1, 10**9]])
    assert ClassificationScores(("a", "b"), confusion, 0.0).mcc == pytest.approx(1.0, abs=1e-8)


def test_people_and_machines_are_told_the_same() -> None:
    found = scored([(0, 0), (0, 1), (1, 1), (2, 0)], classes=3)
    lines = found.lines()
    assert lines[0] == "accuracy    50.00%  2 of 4 texts; one answer for all: 50.00%"
    assert [line.split() for line in lines[-4:]] == [
        ["said:", "a", "b", "c"],
        ["a", "1", "1", "0"],
        ["b", "0", "1", "0"],
        ["c", "1", "0", "0"],
    ]
    assert len({len(line) for line in lines[-4:]}) == 1
    told = json.loads(json.dumps(found.as_dict()))
    assert told["confusion"] == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert (told["accuracy"], told["texts"], told["nll"], told["classes"][1]["recall"]) == (0.5, 4, 0.5, 1.0)


def test_of_many_classes_the_confusions_are_told() -> None:
    names = tuple(f"class {n}" for n in range(20))
    found = ClassificationScores.of(names, np.array([3, 3, 5, *range(20)]), np.array([4, 4, 6, *range(20)]), 0.0)
    assert found.lines()[-2:] == ["2 x class 3 taken for class 4", "1 x class 5 taken for class 6"]


def test_of_two_classes_the_second_has_its_f1() -> None:
    """MRPC's number: precision and recall of paraphrases."""
    found = ClassificationScores.of(("0", "1"), np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0]), 0.0)
    assert found.as_dict()["f1"] == pytest.approx(2 / 3)
    assert found.as_dict()["f1_of"] == "1"
    assert "F1          66.67%  of '1'" in found.lines()
    three = ClassificationScores.of(("a", "b", "c"), np.array([0, 1, 2]), np.array([0, 1, 2]), 0.0)
    assert three.positive is None
    assert "f1" not in three.as_dict()
    assert not any(line.startswith("F1 ") for line in three.lines())
    pairs = list(zip([1, 1, 1, 0, 0], [1, 1, 0, 1, 0]))
    right = sum(t == s for t, s in pairs)
    false_alarms = misses = len(pairs) - right  # of all classes together
    assert found.as_dict()["micro_f1"] == pytest.approx(2 * right / (2 * right + false_alarms + misses))
