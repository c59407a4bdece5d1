"""`regard chat`: a conversation, with a language model whose prompt is its transcript, or with a bot trained on dialogues.

A language model has not been taught to answer; it continues a transcript in which two people take turns, and stops where the
other one would speak. What no longer fits what it sees is forgotten turn by turn, oldest first, and that is said. A bot of task
`dialogue` or `retrieval` hears the last turns, as many as it was trained with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.sources.dialogues import as_typed
from regard.runs.folder import Say
from regard.runs.protocols import Converses, Streams
from regard.tasks.notices import LONGEST_TURN, check_length
from regard.tasks.registry import open_run

HELP = "/new forgets what was said, /bye or Ctrl-D ends"
TURN_ENDS = "\n"


class Talk(Protocol):
    turns: list[str]  # what was said, as far as it is remembered

    def answer(self, said: str, emit: Emit) -> str: ...


class Conversation:
    """Two people and what they have said."""

    def __init__(self, writer: Streams, you: str, it: str, before: str, say: Say) -> None:
        if writer.decode.search == "beam":
            raise UserError("a conversation is shown as it is written, which a beam cannot be; give decode.search=sample.")
        stops = (*writer.decode.stop, f"{TURN_ENDS}{you}:", f"{TURN_ENDS}{it}:")
        half = writer.window // 2
        self.reserved = min(writer.decode.maximum_length or half, half)  # tokens of the window, for an answer
        self.writer = writer.searching(
            stop=stops, samples=1, maximum_length=self.reserved, sliding_window=False, minimum_length=0
        )
        self.you, self.it, self.say = you, it, say
        self.before = f"{before.rstrip()}{TURN_ENDS}" if before else ""
        self.turns: list[str] = []

    def answer(self, said: str, emit: Emit) -> str:
        """Add a turn and answer it. The answer is streamed, without the space after the name."""
        self.turns.append(f"{self.you}: {said}{TURN_ENDS}")
        began = False

        def without_margin(piece: str) -> None:
            nonlocal began
            piece = piece if began else piece.lstrip()
            began = began or bool(piece)
            emit(piece)

        written = self.writer.stream(self._prompt(), len(self.turns), without_margin)
        answer = written.strip()
        if not written:
            emit("...")
        self.turns.append(f"{self.it}: {answer}{TURN_ENDS}")
        return answer

    def _prompt(self) -> str:
        """All that was said, as far as it leaves half of what the model sees for its answer."""
        room = self.writer.window - self.reserved
        for forgotten in range(len(self.turns)):
            prompt = f"{self.before}{''.join(self.turns[forgotten:])}{self.it}:"
            if len(self.writer.tokenizer.encode(prompt)) <= room:
                if forgotten:
                    del self.turns[:forgotten]
                    self.say(f"({forgotten} of the oldest turns no longer fit what the model sees, and are forgotten)")
                return prompt
        raise UserError(f"that is longer than the {room:,} tokens that leave room for an answer; say it in fewer words.")


class Dialogue:
    """A conversation with a bot that was trained on dialogues."""

    def __init__(self, bot: Converses, say: Say) -> None:
        self.bot, self.say = bot, say
        self.turns: list[str] = []

    def answer(self, said: str, emit: Emit) -> str:
        self.turns += as_typed(said)
        if not self.turns:
            raise UserError("nothing was said; say something to be replied to.")
        told = self.bot.replies(self.turns, self.say)
        emit("\n".join(told) if told[0] else "...")
        answer = told[0].partition("\t")[2] or told[0]
        self.turns += [answer] if answer else []
        return answer


def chat(
    run: str, you: str, it: str, before: str, settings: list[str], device: str | None, lines: Iterator[str], emit: Emit, say: Say
) -> None:
    for name, given in (("--you", you), ("--it", it)):
        if not given.strip() or "\n" in given:
            raise UserError(f"{name} is {given!r}; give a name on one line.")
    talk = _talk(run, you, it, before, settings, device, say)
    say(f"{HELP}.")
    heard = False
    for line in lines:
        said, heard = line.strip(), True
        if said == "/bye":
            break
        if said == "/new":
            talk.turns.clear()
            say("(forgotten)")
        elif said.startswith("/"):
            say(f"({said} is no command: {HELP})")
        elif said:
            emit(f"{it}: ")
            _answer(talk, said, emit, say)
            emit("\n")
        else:
            say("(nothing was said: type a line to be answered)")
    if not heard:
        say("(nothing came in: type lines in a terminal, or pipe them, one turn on each)")


def _answer(talk: Talk, said: str, emit: Emit, say: Say) -> None:
    before = len(talk.turns)
    try:
        talk.answer(check_length(said, "that", LONGEST_TURN), emit)
    except UserError as error:  # of this turn: the conversation goes on without it
        del talk.turns[before:]
        say(f"({error})")


def _talk(run: str, you: str, it: str, before: str, settings: list[str], device: str | None, say: Say) -> Talk:
    bot = open_run(run, device, settings)
    if isinstance(bot, Converses):
        if before:
            raise UserError(f"--before {before!r} is for language models, which continue a text; this run replies. Leave it out.")
        return Dialogue(bot, say)
    if not isinstance(bot, Streams):
        raise UserError(
            f"{run} is no language model, and was not trained on dialogues; chat needs a run of task language_model, dialogue or "
            "retrieval, such as runs/gpt or runs/chat-multi."
        )
    return Conversation(bot, you, it, before, say)
