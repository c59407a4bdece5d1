"""A conversation is a transcript that fits, or the last turns for a bot; one turn too long does not end it."""

from __future__ import annotations

import pytest

from regard.commands.chat import Conversation, Dialogue, chat
from regard.core.errors import UserError
from regard.tasks.dialogue.predict import Responder
from regard.tasks.registry import open_run
from regard.tasks.retrieval.predict import Retriever
from tests.command import refused, regard
from tests.command import trained as translator
from tests.tasks.tiny_dialogues import trained
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


def said(run: str, lines: list[str], *settings: str) -> tuple[str, list[str]]:
    """What `regard chat` shows on its output and tells aside."""
    shown, told = list[str](), list[str]()
    chat(str(trained(run)), "You", "Bot", "", list(settings), "cpu", iter(lines), shown.append, told.append)
    return "".join(shown), told


@pytest.mark.parametrize("run", ["chat-single", "chat-multi", "chat-hran", "chat-retrieval"])
def test_every_bot_converses_and_remembers_what_it_said(run: str) -> None:
    bot = open_run(trained(run), "cpu")
    assert isinstance(bot, Responder | Retriever)
    first = bot("hi , i am nora .")
    second = bot([*("hi , i am nora .", *([first] if first else [])), "who am i ?"])
    shown, _ = said(run, ["hi , i am nora .", "who am i ?"])
    assert shown == f"Bot: {first or '...'}\nBot: {second or '...'}\n"


def test_a_new_talk_begins_without_the_old_one() -> None:
    shown, told = said("chat-multi", ["i live in oslo .", "/new", "who am i ?"])
    assert shown.splitlines()[1] == said("chat-multi", ["who am i ?"])[0].splitlines()[0]
    assert "(forgotten)" in told


def test_what_is_no_turn_is_told_and_nothing_is_lost() -> None:
    shown, told = said("chat-retrieval", ["", "__eou__", "/what", "who am i ?", "/bye", "who am i ?"])
    assert shown.count("Bot: ") == 2
    assert shown.splitlines()[1] == said("chat-retrieval", ["who am i ?"])[0].splitlines()[0]
    assert any("nothing was said: type" in line for line in told)
    assert any("nothing was said; say" in line for line in told)
    assert any("/what is no command" in line for line in told)
    assert any("nothing came in" in line for line in said("chat-retrieval", [])[1])


def test_a_retriever_tells_several_with_their_cosines_and_what_it_did_not_read() -> None:
    shown, told = said("chat-retrieval", ["who am i ? " * 60], "data.nearest=3")
    assert shown.count("\t") == 3
    assert any("only the first 126 tokens are read" in line for line in told)
    found = Dialogue(open_run(trained("chat-retrieval"), "cpu", ["data.nearest=3"]), told.append)  # type: ignore[arg-type]
    found.answer("who am i ?", lambda piece: None)
    assert "\t" not in found.turns[-1]


def test_what_a_bot_cannot_heed_is_refused() -> None:
    refused(regard("chat", trained("chat-multi"), "--before", "A talk."), "--before", "Leave it out")
    refused(regard("chat", translator()), "no language model", "dialogue or retrieval")
