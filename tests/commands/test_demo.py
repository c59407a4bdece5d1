"""The demo counts the pronouns of its translations: *il* or *elle* for *it*."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.commands.demo import pronoun_accuracy, pronoun_of
from regard.data.sources import Pair
from regard.data.sources.parallel import read_pairs


def test_only_a_pair_that_asks_what_it_is_has_a_pronoun() -> None:
    assert pronoun_of(Pair("because it is too wide", "parce qu'elle est trop large")) == "elle"
    assert pronoun_of(Pair("the girl slept because she was tired", "la fille a dormi parce qu'elle était fatiguée")) is None
    assert pronoun_of(Pair("he sleeps", "il dort")) is None


@settings(max_examples=30)
@given(st.sets(st.integers(0, 199)))
def test_accuracy_counts_the_pronouns_that_are_right(spoiled: set[int]) -> None:
    pairs = read_pairs(("builtin:english-french/test",))[:200]
    other = {"il": "elle", "elle": "il"}
    outputs = [
        re.sub(r"parce qu'(il|elle)\b", lambda m: f"parce qu'{other[m[1]]}", p.target) if i in spoiled else p.target
        for i, p in enumerate(pairs)
    ]
    asked = {i for i, pair in enumerate(pairs) if "because it " in pair.source}
    assert pronoun_accuracy(pairs, outputs) == (len(asked - spoiled), len(asked))


@pytest.mark.parametrize("output", ["", "la vache dort", "parce qu'ils", "parce qu'elle est là", "parce que il est là"])
def test_an_output_without_the_right_pronoun_is_wrong(output: str) -> None:
    pair = Pair("the cow sleeps because it is tired", "x parce qu'il y")
    assert pronoun_accuracy([pair], [output]) == (0, 1)
