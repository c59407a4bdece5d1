"""Dialogues as questions and answers: every reply with the turns before it, as many of them as a model is to see.

turns = 1    the last turn alone                     hello -> hi , who are you ?
turns = 3    the last three, __eou__ between them     hello __eou__ hi , who are you ? __eou__ ann . -> nice to meet you , ann .
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from regard.data.dialogues import Dialogue
from regard.data.pair import Pair
from regard.text.vocabulary import TURN_END

BETWEEN = f" {TURN_END} "
Length = Callable[[str], int]  # of a turn, in tokens


class Exchange(NamedTuple):
    context: tuple[str, ...]  # the oldest turn first
    reply: str

    @property
    def pair(self) -> Pair:
        return Pair(BETWEEN.join(self.context), self.reply)


def exchanges(dialogues: Iterable[Dialogue], turns: int, every: bool = True) -> list[Exchange]:
    """Of every reply, or of the second speaker's alone; each with at most so many turns before it."""
    return [
        Exchange(dialogue.turns[max(0, n - turns) : n], dialogue.turns[n])
        for dialogue in dialogues
        for n in range(1, len(dialogue.turns), 1 if every else 2)
    ]


def recent(context: Sequence[str], turns: int, room: int, length: Length) -> tuple[str, ...]:
    """The last `turns`, without the oldest where all have more than `room` tokens, a mark each counted; the last one stays."""
    kept, left = list[str](), room
    for turn in reversed(context[-turns:]):
        left -= length(turn) + 1
        if kept and left < 0:
            break
        kept.append(turn)
    return tuple(reversed(kept))


def as_typed(text: str) -> tuple[str, ...]:
    """The turns of a text that a person typed, __eou__ between them."""
    return tuple(turn for part in text.split(TURN_END) if (turn := " ".join(part.split())))
