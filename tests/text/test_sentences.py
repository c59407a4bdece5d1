"""Where sentences end: what people would say of abbreviations, quotes and pauses, and that nothing of a text gets lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.offsets import SENTENCE_END, sentences

SPLIT = [  # a bar where a sentence ends
    "It was good.|It was long!|Was it?|Yes.",
    "Dr. No met Mr. and Mrs. Hill at St. Mary's.|They talked.",
    "J. S. Bach and J.R.R. Tolkien never met.|The U.S. Senate did.",
    "It was I.|He knew.",
    "We left at 5 p.m. and came back at 6 a.m. on foot.|Nobody saw us at 7 p.m.|They slept.",
    "Apples, pears, etc. are fruit.|So are plums, etc.|He likes them.",
    "It is 3.5 miles away, e.g. by bus.|Version 2.0 is out.",
    "No. 5 is alive.|No.|He is not.",
    '"Why?" she asked.|"I do not know."|He left.',
    "“Go!” he said.|‘No.’|«Si.»|(It was late.)|[Really.]|Then...",
    "Well... nobody knew.|Wait…|What?|Great film...but long.",
    "Really?!|Yes!!!|No way.",
    "What a film.|<br /><br />A second line<br>a third|",
    "One paragraph\n\nanother one.| And a\nwrapped line.",
    "这是一句。|这是两句！|好吗？|「好。」|好",
    "¿Qué?|¡Nada!|Bueno.",
    "no end at all",
    "...",
]


@pytest.mark.parametrize("marked", SPLIT)
def test_sentences_end_where_people_say(marked: str) -> None:
    text = marked.replace("。|", "。").replace("！|", "！").replace("？|", "？").replace("」|", "」").replace("|", " ")
    expected = [part.strip() for whole in marked.split("|") for part in whole.replace("<br>", "<br />").split("<br />")]
    expected = [part for whole in expected for part in whole.split("\n\n") if part]
    assert sentences(text) == expected


@pytest.mark.parametrize("text", ["", "  \n ", "<br />", SENTENCE_END])
def test_no_words_no_sentence(text: str) -> None:
    assert sentences(text) == []


def test_sentences_that_were_given_are_not_cut_again() -> None:
    assert sentences(f"Mr. X came. He saw.{SENTENCE_END}It was good.{SENTENCE_END}") == ["Mr. X came. He saw.", "It was good."]


@settings(max_examples=100)
@given(st.text(st.sampled_from("abA1I .!?…\"')。\n"), max_size=40))
def test_nothing_is_lost_and_nothing_is_empty(text: str) -> None:
    found = sentences(text)
    assert all(sentence == sentence.strip() != "" for sentence in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["It was good.", "Was it?", "Dr. No came.", "Yes!"]), min_size=1, max_size=6))
def test_sentences_side_by_side_come_apart_again(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == parts
