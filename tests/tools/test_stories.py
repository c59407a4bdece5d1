"""The built-in stories: answers stand where they are said to, only the question decides between rivals, and nothing leaks."""

from __future__ import annotations

import re

import pytest

from regard.metrics.question_answering import exact
from tools.corpora.stories import ADJECTIVES, SIZES, THINGS, held_out, stories

SPLITS = tuple(SIZES)


@pytest.mark.parametrize("split", SPLITS)
def test_answers_stand_where_they_are_said_to(split: str) -> None:
    found = stories(split)
    assert len(found) == SIZES[split]
    for story in found:
        end = story.start + len(story.answer)
        assert story.context[story.start : end] == story.answer
        assert not story.context[end].isalnum()  # a whole word
        assert story.question.endswith("?")
        assert story.context.endswith(".")


@pytest.mark.parametrize("split", SPLITS)
def test_rivals_stand_there_too_and_are_wrong(split: str) -> None:
    for story in stories(split):
        assert story.rivals
        for rival in story.rivals:
            assert rival.lower() in story.context.lower()
            assert not exact(rival, story.answer)


def test_what_picking_at_random_scores() -> None:
    """The recipe says so beside its score."""
    chance = [1 / (1 + len(story.rivals)) for story in stories("test")]
    assert sum(chance) / len(chance) == pytest.approx(0.406, abs=0.001)


def test_the_first_of_its_kind_is_no_answer() -> None:
    """Nor is the last: the place in the story says little."""
    firsts = lasts = 0
    for story in stories("test"):
        places = [story.context.lower().index(rival.lower()) for rival in story.rivals]
        firsts += story.start < min(places)
        lasts += story.start > max(places)
    assert firsts < 0.5 * SIZES["test"]
    assert lasts < 0.5 * SIZES["test"]


def test_nothing_leaks() -> None:
    contexts = {split: {story.context for story in stories(split)} for split in SPLITS}
    assert not contexts["train"] & contexts["test"]
    assert not contexts["train"] & contexts["valid"]
    assert not contexts["valid"] & contexts["test"]
    things = [f"{adjective} {thing}" for adjective in ADJECTIVES for thing in THINGS if held_out(f"{adjective} {thing}")]
    assert 5 < len(things) < 24
    unseen = re.compile("|".join(things))
    assert not any(unseen.search(context) for context in contexts["train"])
    share = sum(bool(unseen.search(context)) for context in contexts["test"]) / len(contexts["test"])
    assert 0.4 < share < 0.7


def test_the_same_on_every_machine() -> None:
    assert stories("train")[0].question == "When was the black chair painted?"
    assert stories("train")[0].answer == "the evening"
