"""A conversation is a transcript that fits, and one turn too long does not end it."""

from __future__ import annotations

import pytest

from regard.errors import UserError
from regard.tasks.chat import Conversation
from tests.tasks.tiny_text import writer


def talk(said: list[str]) -> tuple[Conversation, list[str]]:
    told: list[str] = []
    found = Conversation(writer("word", 30, maximum_length=4), "A", "B", "", told.append)
    for line in said:
        found.answer(line, lambda piece: None)
    return found, told


def test_old_turns_are_forgotten_aloud() -> None:
    found, told = talk(["the cat", "the dog", "the cat", "the dog"])
    assert any("forgotten" in line for line in told)
    assert found.turns[-2] == "A: the dog\n"
    assert found.turns[-1].startswith("B: ")


def test_a_turn_that_cannot_fit_loses_nothing_else() -> None:
    found, _ = talk(["the cat"])
    before = list(found.turns)
    with pytest.raises(UserError, match="in fewer words"):
        found.answer("the cat sees the dog. " * 20, lambda piece: None)
    assert found.turns[:-1] == before
