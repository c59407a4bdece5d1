"""Read dialogues, one on each line, as lists of turns, and pair every reply with the turns before it.

    "talks.jsonl"               {"turns": ["hi", "hello"]}, or a list of {"speaker": "Ann", "text": "hi"} (.ndjson too)
    "talks.txt"                 hi __eou__ hello __eou__        as DailyDialog has it; what follows a tab is no turn
    "talks.tsv"                 hi<TAB>hello                    turns with tabs between them
    "builtin:smalltalk/train"   needs no network
    "hf:NAME@CONFIG:SPLIT"      `datasets` opens NAME, whose column "turns", "dialog" or "utterances" is such a list

Every file may be gzipped (.gz), and several of these may be given, to be read one after the other. A line of text without __eou__
has its turns between tabs, whatever its file is called. A dialogue of one turn has no reply to learn.

Replies with their context, as many turns of it as the model is to see:

turns = 1    the last turn alone                     hello -> hi , who are you ?
turns = 3    the last three, __eou__ between them     hello __eou__ hi , who are you ? __eou__ ann . -> nice to meet you , ann .
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError, nearest
from regard.data.builtin import read_builtin
from regard.data.sources import Pair
from regard.data.sources.files import JSON_LINES, must_be_file, numbered_lines, suffix_of
from regard.data.sources.records import Record, hub_records, json_records, refuse_half_characters
from regard.text.specials import TURN_END

BUILTIN = ("smalltalk",)
LISTS = ("turns", "dialog", "utterances")  # what a list of turns is called
EXAMPLE = '{"turns": ["hi", "hello"]}'


class Dialogue(NamedTuple):
    turns: tuple[str, ...]
    place: str  # where it stands, for complaints


def read_dialogues(where: Sequence[str], limit: int | None = None) -> list[Dialogue]:
    """Read all dialogues, or the first `limit`."""
    found = list(islice(chain.from_iterable(map(_dialogues, where)), limit))
    if not any(len(dialogue.turns) > 1 for dialogue in found):
        raise UserError(
            f"{' and '.join(where)}: it has no reply. Give dialogues of two turns or more, one on each line: "
            f"turns that end with {TURN_END}, or {EXAMPLE} in a .jsonl file."
        )
    return found


def _dialogues(entry: str) -> Iterator[Dialogue]:
    if entry.startswith("builtin:"):
        rows = enumerate(read_builtin(entry, BUILTIN, "dialogues"), start=1)
        return (Dialogue(tuple(turns), f"{entry}, dialogue {number}") for number, turns in rows)
    if entry.startswith("hf:"):
        return map(_listed, hub_records(entry))
    path = Path(entry).expanduser()
    must_be_file(path)
    if suffix_of(path) in JSON_LINES:
        return map(_listed, json_records(path, (), EXAMPLE))
    return (Dialogue(_written(line, f"{path}, line {n}"), f"{path}, line {n}") for n, line in numbered_lines(path))


def _listed(record: Record) -> Dialogue:
    place, values = record
    name = next((name for name in LISTS if name in values), None)
    if name is None:
        raise UserError(f"{place}: there is no list of turns{nearest(LISTS[0], values)} Write lines like {EXAMPLE}.")
    listed = values[name]
    if not isinstance(listed, list) or not listed:
        what = "an empty list" if isinstance(listed, list) else type(listed).__name__
        raise UserError(f"{place}: {name!r} holds {what}, but a list of turns is needed. Write lines like {EXAMPLE}.")
    texts = (_text(turn, f"{place}, turn {number}") for number, turn in enumerate(listed, start=1))
    return Dialogue(tuple(_checked(text, place, number) for number, text in enumerate(texts, start=1)), place)


def _text(turn: object, place: str) -> str:
    """Return the text of a turn, given as a string or an object; its speaker is ignored, since turns alternate."""
    text = turn.get("text") if isinstance(turn, Mapping) else turn
    if not isinstance(text, str):
        found = f"{type(turn).__name__} without a text" if isinstance(turn, Mapping) else type(turn).__name__
        raise UserError(f'{place}: {found} found, a text expected. Write it in quotes, or as {{"speaker": "A", "text": "hi"}}.')
    return text


def _written(line: str, place: str) -> tuple[str, ...]:
    """Split a line into turns. DailyDialog's last turn may lack its mark, and a tab and numbers may follow it."""
    if TURN_END in line:
        *ended, rest = line.split(TURN_END)
        last = rest.partition("\t")[0]
        parts = [*ended, last] if last.strip() else ended
    else:
        parts = line.split("\t")
    return tuple(_checked(part, place, number) for number, part in enumerate(parts, start=1))


def _checked(text: str, place: str, number: int) -> str:
    """Return a turn as one line, without spaces around it; an empty one is refused."""
    found = " ".join(text.split())
    if not found:
        raise UserError(f"{place}: turn {number} is empty. Fill it in, or take it out with its mark.")
    if TURN_END in found:
        raise UserError(f"{place}: turn {number} holds {TURN_END}, which ends turns. Make two turns of it.")
    refuse_half_characters(found, f"{place}: turn {number}")
    return found


BETWEEN = f" {TURN_END} "
Length = Callable[[str], int]  # of a turn, in tokens


class Exchange(NamedTuple):
    context: tuple[str, ...]  # the oldest turn first
    reply: str

    @property
    def pair(self) -> Pair:
        return Pair(BETWEEN.join(self.context), self.reply)


def exchanges(dialogues: Iterable[Dialogue], turns: int, every: bool = True) -> list[Exchange]:
    """Return every reply, or the second speaker's alone, each with at most `turns` turns before it."""
    return [
        Exchange(dialogue.turns[max(0, n - turns) : n], dialogue.turns[n])
        for dialogue in dialogues
        for n in range(1, len(dialogue.turns), 1 if every else 2)
    ]


def recent(context: Sequence[str], turns: int, room: int, length: Length) -> tuple[str, ...]:
    """Return the last `turns`, without the oldest ones if all have more than `room` tokens (one for each mark); one stays."""
    kept, left = list[str](), room
    for turn in reversed(context[-turns:]):
        left -= length(turn) + 1
        if kept and left < 0:
            break
        kept.append(turn)
    return tuple(reversed(kept))


def as_typed(text: str) -> tuple[str, ...]:
    """Split a typed text into turns at __eou__."""
    return tuple(turn for part in text.split(TURN_END) if (turn := " ".join(part.split())))
