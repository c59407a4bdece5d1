"""`regard chat`: a conversation with a language model, whose transcript is the prompt.

A language model has not been taught to answer; it continues a transcript in which two people take turns, and stops where the
other one would speak. What no longer fits what it sees is forgotten turn by turn, oldest first, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from regard.errors import UserError
from regard.tasks.run import Say
from regard.tasks.table import open_run
from regard.tasks.telling import Emit
from regard.tasks.writer import Writer

HELP = "/new forgets what was said, /bye or Ctrl-D ends"
TURN_ENDS = "\n"


class Conversation:
    """Two people and what they have said."""

    def __init__(self, writer: Writer, you: str, it: str, before: str, say: Say) -> None:
        stops = (*writer.decode.stop, f"{TURN_ENDS}{you}:", f"{TURN_ENDS}{it}:")
        self.writer = replace(writer, decode=replace(writer.decode, stop=stops, samples=1))
        self.you, self.it, self.before, self.say = you, it, before, say
        self.turns: list[str] = []

    def answer(self, said: str, emit: Emit) -> str:
        """One turn each. The answer is told as it is written, without the space that parts it from the name."""
        self.turns.append(f"{self.you}: {said}{TURN_ENDS}")
        began = False

        def without_margin(piece: str) -> None:
            nonlocal began
            piece = piece if began else piece.lstrip()
            began = began or bool(piece)
            emit(piece)

        written = self.writer.write([self._prompt()], len(self.turns), without_margin)[0][0]
        answer = written.text.strip()
        if not written.text:
            emit("...")
        self.turns.append(f"{self.it}: {answer}{TURN_ENDS}")
        return answer

    def _prompt(self) -> str:
        """All that was said, as far as it leaves half of what the model sees for its answer."""
        room = self.writer.window - self._reserved()
        for forgotten in range(len(self.turns)):
            prompt = f"{self.before}{''.join(self.turns[forgotten:])}{self.it}:"
            if len(self.writer.tokenizer.encode(prompt)) <= room:
                if forgotten:
                    del self.turns[:forgotten]
                    self.say(f"({forgotten} of the oldest turns no longer fit what the model sees, and are forgotten)")
                return prompt
        raise UserError(f"that is longer than the {room:,} tokens that leave room for an answer; say it in fewer words.")

    def _reserved(self) -> int:
        wanted = self.writer.decode.maximum_length or self.writer.window // 2
        return min(wanted, self.writer.window // 2)


def chat(
    run: str, you: str, it: str, before: str, settings: list[str], device: str | None, lines: Iterator[str], emit: Emit, say: Say
) -> None:
    for name, given in (("--you", you), ("--it", it)):
        if not given.strip() or "\n" in given:
            raise UserError(f"{name} is {given!r}; give a name on one line.")
    writer = open_run(run, device, settings)
    if not isinstance(writer, Writer):
        raise UserError(f"{run} is no language model; chat needs a run of task write, such as runs/gpt.")
    if writer.decode.search == "beam":
        raise UserError("a conversation is shown as it is written, which a beam cannot be; give --set decode.search=sample.")
    room = writer.window // 2
    limit = min(writer.decode.maximum_length or room, room)
    writer = replace(writer, decode=replace(writer.decode, maximum_length=limit, slide=False, minimum_length=0))
    talk = Conversation(writer, you, it, f"{before.rstrip()}{TURN_ENDS}" if before else "", say)
    say(f"{HELP}.")
    for line in lines:
        said = line.strip()
        if said == "/bye":
            break
        if said == "/new":
            talk.turns.clear()
            say("(forgotten)")
        elif said.startswith("/"):
            say(f"({said} is no command: {HELP})")
        elif said:
            emit(f"{it}: ")
            try:
                talk.answer(said, emit)
            except UserError as error:  # of this turn: the conversation goes on without it
                talk.turns.pop()
                say(f"({error})")
            emit("\n")
