"""Schemes of tags: what they mean is read as conlleval reads it, and what may follow what is just what can be written."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tagset import (
    LETTERS,
    Scheme,
    Span,
    find_broken,
    guess_scheme,
    scheme_of_names,
    spans,
    tags_of_spans,
    transitions,
)

SCHEMES: tuple[Scheme, ...] = ("iob1", "iob2", "iobes")
EXAMPLE = {  # Ann Lee saw Rome Oslo
    "iob1": "I-PER I-PER O I-LOC B-LOC",
    "iob2": "B-PER I-PER O B-LOC B-LOC",
    "iobes": "B-PER E-PER O S-LOC S-LOC",
}
MEANT = [Span(0, 2, "PER"), Span(3, 4, "LOC"), Span(4, 5, "LOC")]


def conlleval(tags: list[str]) -> list[Span]:
    """By the two questions that the Perl script asks of each pair of neighbours."""

    def parts(tag: str) -> tuple[str, str]:
        return ("O", "") if tag == "O" else (tag[0], tag[2:])

    def ends(before: str, letter: str, was: str, type_: str) -> bool:
        pairs = {("B", "B"), ("B", "O"), ("B", "S"), ("I", "B"), ("I", "O"), ("I", "S")}
        return (before, letter) in pairs or before in "ES" or (before != "O" and was != type_)

    def starts(before: str, letter: str, was: str, type_: str) -> bool:
        return letter in "BS" or (letter in "IE" and before in "OES") or (letter != "O" and was != type_)

    found, begun = [], None
    for n, tag in enumerate([*tags, "O"]):
        before, was = parts(tags[n - 1]) if n else ("O", "")
        letter, type_ = parts(tag)
        if begun is not None and ends(before, letter, was, type_):
            found.append(Span(begun, n, was))
            begun = None
        if starts(before, letter, was, type_):
            begun = n
    return found


def all_tags(scheme: Scheme, types: str = "XY") -> list[str]:
    return ["O", *(f"{letter}-{type_}" for type_ in types for letter in LETTERS[scheme])]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_example(scheme: Scheme) -> None:
    tags = EXAMPLE[scheme].split()
    assert spans(tags) == MEANT
    assert tags_of_spans(MEANT, 5, scheme) == tags
    assert find_broken(tags, scheme) == []
    assert guess_scheme([tags]) == scheme


@given(st.lists(st.sampled_from(["O", *(f"{letter}-{t}" for letter in "BIES" for t in ("X", "Y", "a-b"))]), max_size=9))
@settings(max_examples=300)
def test_entities_are_conllevals(tags: list[str]) -> None:
    assert spans(tags) == conlleval(tags)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_come_back_from_what_is_written(scheme: Scheme) -> None:
    for tags in product(all_tags("iob2"), repeat=4):
        assert spans(tags_of_spans(spans(tags), 4, scheme)) == spans(tags)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_may_follow_what_is_what_can_be_written(scheme: Scheme) -> None:
    """Every row of four tags: allowed step by step exactly if it obeys the scheme as a whole."""
    names = all_tags(scheme)
    may = transitions(names, scheme)
    around, obeyed = len(names), 0
    for row in product(range(len(names)), repeat=4):
        steps = bool(may[[around, *row], [*row, around]].all())
        assert steps == (find_broken([names[n] for n in row], scheme) == []), [names[n] for n in row]
        obeyed += steps
    assert 50 < obeyed < len(names) ** 4


def test_plain_tags_may_follow_all() -> None:
    assert transitions(["NN", "VB"], "plain").tolist() == np.ones((3, 3)).tolist()
    assert find_broken(["I-PER", "NN"], "plain") == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["NN VB O NN"], "plain"),
        (["O O O"], "plain"),
        (["O I-X I-X O"], "iob1"),
        (["O I-X B-X O"], "iob1"),
        (["O B-X I-X O"], "iob2"),
        (["B-X O", "B-X I-X", "O I-X"], "iob2"),  # one that breaks it
        (["I-X O", "I-X I-X", "O B-X"], "iob1"),
        (["B-X E-X", "S-X O"], "iobes"),
        (["B-X I-X O", "B-Y O", "O S-X"], "iob2"),  # and a stray one
        (["B-X I-X", "PER O"], "iob2"),  # mistyped
        (["B-X O", "NN VB"], "plain"),
    ],
)
def test_the_scheme_is_recognised(rows: list[str], expected: Scheme) -> None:
    assert guess_scheme([row.split() for row in rows]) == expected


def test_the_scheme_of_names() -> None:
    assert scheme_of_names(["O", "B-PER", "I-PER"]) == "iob2"
    assert scheme_of_names(["O", "B-PER", "I-PER", "E-PER", "S-PER"]) == "iobes"
    assert scheme_of_names(["LABEL_0", "LABEL_1"]) == "plain"
    assert scheme_of_names(["NN", "VB", "O"]) == "plain"
