"""The figures are those of the package `rouge-score`; where it cannot be asked, those worked out by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.metrics.rouge import corpus_rouge, longest_common, rouge_l, rouge_l_sum, rouge_n, words_of, words_of_any_alphabet

TEXT = "The pumps were stopped at 9:30, after two alarms; nobody's been hurt. Engineers are re-checking the engines' filters"
KINDS = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


def noisy(texts: int, references: int) -> tuple[list[str], list[list[str]]]:
    """Texts of up to three lines, some empty, beside altered ones."""
    dice, words = random.Random(5), [*TEXT.split(), "café", "—", "Pump_2"]

    def text() -> str:
        return "\n".join(" ".join(dice.choices(words, k=dice.randint(0, 14))) for _ in range(dice.randint(1, 3)))

    def altered(whole: str) -> str:
        return "".join(dice.choice([f"{word} ", "", f"{word}s\n", f"{dice.choice(words)} "]) for word in whole.split(" "))

    outputs = [text() for _ in range(texts)]
    return outputs, [[altered(output) if dice.random() < 0.8 else text() for _ in range(references)] for output in outputs]


def by_rouge_score(outputs: list[str], references: list[list[str]]) -> dict[str, float]:
    scorer: Any = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(KINDS, use_stemmer=True)
    rows = [scorer.score_multi(targets, output) for output, targets in zip(outputs, references)]
    return {kind: 100 * sum(row[kind].fmeasure for row in rows) / len(rows) for kind in KINDS}


@pytest.mark.parametrize("references", [1, 3])
def test_equals_rouge_score(references: int) -> None:
    outputs, targets = noisy(150, references)
    scores, expected = corpus_rouge(outputs, targets), by_rouge_score(outputs, targets)
    assert 5 < scores.rouge2 < scores.rougeL < scores.rougeLsum < scores.rouge1 < 95
    assert {kind: getattr(scores, kind) for kind in KINDS} == pytest.approx(expected, abs=1e-9)


def test_single_texts_equal_rouge_score() -> None:
    """No mean hides what differs in one text."""
    outputs, targets = noisy(60, 1)
    for output, target in zip(outputs, targets):
        scores = corpus_rouge([output], [target])
        assert {kind: getattr(scores, kind) for kind in KINDS} == pytest.approx(by_rouge_score([output], [target]), abs=1e-9)


def test_by_hand() -> None:
    """Lin 2004, section 3.1: police killed the gunman."""
    said = ("police killed the gunman", "police kill the gunman", "the gunman kill police")
    reference, one, other = map(str.split, said)
    assert rouge_l(one, reference) == 0.75
    assert rouge_l(other, reference) == 0.5
    assert rouge_n(one, reference, 2) == rouge_n(other, reference, 2) == pytest.approx(1 / 3)


def test_by_hand_the_union_of_sentences() -> None:
    """Lin 2004, section 3.2: w1 w2 w3 w4 w5 against w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5 shares w1 w2 w3 w5."""
    reference, output = [["w1", "w2", "w3", "w4", "w5"]], [["w1", "w2", "w6", "w7", "w8"], ["w1", "w3", "w8", "w9", "w5"]]
    assert rouge_l_sum(output, reference) == pytest.approx(2 * 4 / (10 + 5))


def test_each_score_takes_its_best_reference() -> None:
    scores = corpus_rouge(["a b c d"], [["d c b a", "a b"]])
    assert (scores.rouge1, scores.rouge2) == (100, 50)
    assert scores.signature == "F1|refs:2|case:lc|words:a-z0-9|stems:porter"


def test_words_and_stems() -> None:
    assert words_of("The Pumps, re-started: caf\u00e9 9:30!") == ["the", "pump", "re", "start", "caf", "9", "30"]
    assert words_of_any_alphabet("Насосы, caf\u00e9_2") == ["насосы", "caf\u00e9", "2"]


def test_other_alphabets_are_scored_and_the_signature_says_how() -> None:
    scores = corpus_rouge(["насос стоит"], [["насос не стоит"]])
    assert scores.rouge1 == pytest.approx(80)
    assert scores.signature == "F1|refs:1|case:lc|words:unicode|stems:no"


def test_empty_texts_score_nothing() -> None:
    scores = corpus_rouge(["", "a"], [["a"], [""]])
    assert (scores.rouge1, scores.rouge2, scores.rougeL, scores.rougeLsum) == (0, 0, 0, 0)


@given(WORDS, WORDS)
def test_the_longest_common_subsequence_is_that_of_the_table(one: list[str], other: list[str]) -> None:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, word in enumerate(one):
        for j, second in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if word == second else max(table[i][j + 1], table[i + 1][j])
    assert longest_common(one, other) == longest_common(other, one) == table[-1][-1]


@given(WORDS, WORDS)
def test_scores_are_symmetric_and_between_0_and_1(one: list[str], other: list[str]) -> None:
    for score in (lambda a, b: rouge_n(a, b, 1), lambda a, b: rouge_n(a, b, 2), rouge_l):
        assert score(one, other) == score(other, one)
        assert 0 <= score(one, other) <= 1
    assert not one or rouge_l(one, one) == 1


@pytest.mark.parametrize(
    ("outputs", "references", "said"),
    [
        (["a"], [["a"], ["b"]], "1 outputs came with references for 2"),
        ([], [], "no texts to score"),
        (["a", "b"], [["a"], []], "output 2 came without a reference"),
    ],
)
def test_refused(outputs: list[str], references: list[list[str]], said: str) -> None:
    with pytest.raises(UserError, match=said):
        corpus_rouge(outputs, references)
