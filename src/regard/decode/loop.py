"""The loop that every search runs in: some tokens for all sentences, a look at who is done, and those may leave.

A search advances by itself, wherever it runs. The host only says how many times, and looks. On a CPU looking costs nothing: it
looks at every token, and sentences leave at once. A GPU stands still while the host looks, and a step for fewer sentences is
another graph: there it looks every few tokens, and sentences leave when at most half are left, so that few sizes occur.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from regard.core.errors import UserError
from regard.decode.cuda_graphs import CapturedGraphs
from regard.decode.hypothesis import Hypothesis
from regard.decode.prompts import Prompts
from regard.decode.rules import Kind, Listener, Room, Rules, Search
from regard.model.state.protocol import EncodedInput, RowCompaction

LOOK_EVERY = 8  # tokens, where looking makes the device wait


def find(
    kind: Kind,
    rules: Rules,
    reading: EncodedInput,
    openings: Prompts,
    sessions: CapturedGraphs | None,
    listener: Listener | None = None,
) -> list[list[Hypothesis]]:
    """Per sentence, what this kind of search finds by these rules. The listener hears of every sentence whenever the host looks.

    Where it stops one, the hypothesis still holds all that was written until that look: on a GPU up to seven tokens more than the
    listener may want. Only the listener knows where in the text it would have stopped, so cutting the rest off is its own affair.
    """
    if not openings.limits:
        return []
    if sessions is None or reading.watched:
        fixed = reading.device.type == "cuda" and not reading.watched
        search = kind(rules, reading, Room.of(openings, rules, fixed=fixed))
        search.begin(reading, openings)
        return complete(search, openings.limits, partial(repeat, search.advance), patient=fixed, listener=listener)
    room = Room.of(openings, rules, fixed=True).rounded()
    with sessions.lend((kind, rules, reading.likeness, room), lambda: kind(rules, reading, room)) as session:
        session.search.begin(reading, openings)
        return complete(session.search, openings.limits, session.advance, patient=True, listener=listener)


def repeat(advance: Callable[[], None], times: int) -> None:
    for _ in range(times):
        advance()


def complete(
    search: Search, limits: list[int], advance: Callable[[int], None], *, patient: bool, listener: Listener | None = None
) -> list[list[Hypothesis]]:
    """Advance until all are done. Patient: look, and let sentences go, seldom."""
    found: dict[int, list[Hypothesis]] = {}
    held = list(range(len(limits)))  # the sentence in each row
    going = held
    taken = 0
    while going:
        tokens = min(LOOK_EVERY if patient else 1, max(limits[held[row]] for row in going) - taken)
        search.state.reserve(tokens)
        advance(tokens)
        taken += tokens
        done, broken = search.progress.look()
        _must_be_numbers(broken)
        if listener is not None:
            for row in _tell(listener, search, held, going, taken - tokens):
                done[row] = True
        going = [row for row in going if not done[row]]
        size = 1 << (len(going) - 1).bit_length() if patient and going else len(going)
        if going and size >= search.progress.sentences:
            continue
        leaving = [row for row, sentence in enumerate(held) if done[row] and sentence not in found]
        rows_R = torch.tensor(leaving, device=search.progress.step_1.device)
        found.update(zip((held[row] for row in leaving), search.hypotheses(rows_R)))
        if going:
            rows = _places(going, size)
            search.keep(RowCompaction.of(rows, rows_R.device))
            held, going = [held[row] for row in rows], [place for place, row in enumerate(rows) if not done[row]]
    return [found[sentence] for sentence in range(len(limits))]


def _tell(listener: Listener, search: Search, held: list[int], going: list[int], since: int) -> list[int]:
    """The rows that are to end, of those that were going on when so many tokens were taken."""
    written = search.written(torch.tensor(going, device=search.progress.step_1.device), since)
    stopped = [row for row, tokens in zip(going, written) if tokens and listener(held[row], tokens)]
    if stopped:
        search.progress.stop(stopped)
    return stopped


def _places(going: list[int], size: int) -> list[int]:
    """The row that comes to each place: those that go on stay where they are if they can, the others move up."""
    staying, moving = set(going), [row for row in going if row >= size]
    return [place if place in staying or not moving else moving.pop() for place in range(size)]


def _must_be_numbers(broken: list[bool]) -> None:
    if any(broken):
        raise UserError(
            "The model's scores for the next token are not numbers (NaN or infinite): its weights or its input are "
            "broken. Decode from an earlier checkpoint, or in float32."
        )
