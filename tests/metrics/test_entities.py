"""Entity scores: as counted by hand, by brute force over spans, and by seqeval."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.classification import EntityScores, confusion_lines

TYPES = ("LOC", "PER")
tags = st.sampled_from(["O", "B-LOC", "I-LOC", "B-PER", "I-PER"])
pairs = st.lists(st.lists(st.tuples(tags, tags), min_size=1, max_size=8), min_size=1, max_size=6)


def scored(true: list[str], said: list[str], nll: float = 0.5) -> EntityScores:
    return EntityScores.of(TYPES, [row.split() for row in true], [row.split() for row in said], nll)


def brute(rows: list[list[str]]) -> set[tuple[int, int, int, str]]:
    """Every range of words that is an entity: begun at its first word, of one type, and not going on behind its last."""
    found = set()
    for k, row in enumerate(rows):
        for start in range(len(row)):
            for end in range(start + 1, len(row) + 1):
                type_ = row[start][2:]
                begins = row[start][0] == "B" or (row[start][0] == "I" and (start == 0 or row[start - 1][2:] != type_))
                inside = all(tag == f"I-{type_}" for tag in row[start + 1 : end])
                if begins and inside and (end == len(row) or row[end] != f"I-{type_}"):
                    found.add((k, start, end, type_))
    return found


@given(pairs)
@settings(max_examples=150)
def test_counts_are_those_of_brute_force(both: list[list[tuple[str, str]]]) -> None:
    true, said = [[t for t, _ in row] for row in both], [[s for _, s in row] for row in both]
    scores, are, were = EntityScores.of(TYPES, true, said, 0.0), brute(true), brute(said)
    assert (scores.true, scores.said, scores.right) == (len(are), len(were), len(are & were))
    for score in scores.by_type():
        mine, theirs = ({one for one in found if one[3] == score.name} for found in (are, were))
        assert score.precision == pytest.approx(len(mine & theirs) / len(theirs) if theirs else 0)
        assert score.recall == pytest.approx(len(mine & theirs) / len(mine) if mine else 0)
        assert score.true == len(mine)
    assert scores.accuracy == sum(t == s for row in both for t, s in row) / sum(map(len, both))


@pytest.mark.filterwarnings("ignore")  # of what is not defined where a class is missing
@given(pairs)
@settings(max_examples=50)
def test_scores_are_seqevals(both: list[list[tuple[str, str]]]) -> None:
    from seqeval import metrics

    true, said = [[t for t, _ in row] for row in both], [[s for _, s in row] for row in both]
    scores = EntityScores.of(TYPES, true, said, 0.0)
    assert scores.f1 == pytest.approx(metrics.f1_score(true, said))
    assert scores.precision == pytest.approx(metrics.precision_score(true, said))
    assert scores.recall == pytest.approx(metrics.recall_score(true, said))


def test_by_hand() -> None:
    true = ["B-PER I-PER O B-LOC", "B-LOC I-LOC O", "O B-PER"]
    said = ["B-PER I-PER O B-PER", "B-LOC O O", "B-LOC B-PER"]  # right; other type; cut short; made up, right
    scores = scored(true, said)
    assert (scores.true, scores.said, scores.right) == (4, 5, 2)
    assert (scores.precision, scores.recall, scores.f1) == (0.4, 0.5, pytest.approx(4 / 9))
    assert scores.confusion_TT.tolist() == [[0, 1, 1], [0, 2, 0], [2, 0, 0]]  # LOC, PER, none
    assert [tuple(score) for score in scores.by_type()] == [
        ("LOC", 0.0, 0.0, 0.0, 2),
        ("PER", pytest.approx(2 / 3), 1.0, pytest.approx(0.8), 2),
    ]
    assert scores.accuracy == pytest.approx(6 / 9)
    assert (scores.right_sentences, scores.sentences) == (0, 3)


def test_lines_and_json() -> None:
    scores = scored(["B-PER O B-LOC"], ["B-PER O B-PER"])
    lines = scores.lines()
    assert lines[0] == "F1          50.00%  of 2 entities, 2 said, 1 right"
    assert lines[3] == "accuracy    66.67%  2 of 3 words have the right tag"
    assert lines[-4:] == [
        "said:     LOC     PER       -",
        "LOC         0       1       0",
        "PER         0       1       0",
        "-           0       0       0",
    ]
    found = json.loads(json.dumps(scores.as_dict()))
    assert (found["f1"], found["labels"], found["confusion"]) == (0.5, ["LOC", "PER", "-"], [[0, 1, 0], [0, 1, 0], [0, 0, 0]])


def test_nothing_found_is_zero() -> None:
    scores = scored(["O O"], ["O O"])
    assert (scores.f1, scores.precision, scores.recall, scores.accuracy) == (0, 0, 0, 1)


def test_many_types_are_told_by_their_confusions() -> None:
    labels = [f"T{n}" for n in range(14)]
    table = np.diag([5] * 14)
    table[3, 7], table[2, 0] = 4, 9
    assert confusion_lines(labels, table) == ["9 x T2 taken for T0", "4 x T3 taken for T7"]
