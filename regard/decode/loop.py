"""The loop that every search runs in: some tokens for all sentences, a look at who is done, and those may leave.

A search advances by itself, wherever it runs. The host only says how many times, and looks. On a CPU looking costs nothing: it
looks at every token, and sentences leave at once. A GPU stands still while the host looks, and a step for fewer sentences is
another graph: there it looks every few tokens, and sentences leave when at most half are left, so that few sizes occur.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from regard.decode.graph import Sessions
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Kind, Rules, Search
from regard.errors import UserError
from regard.model.cache import roomy
from regard.model.state import Moves, Reading

LOOK_EVERY = 8  # tokens, where looking makes the device wait


def find(
    kind: Kind, rules: Rules, reading: Reading, sos: int | Tensor, limits: list[int], sessions: Sessions | None
) -> list[list[Hypothesis]]:
    """Per sentence of the reading, what this kind of search finds by these rules."""
    if not limits:
        return []
    first_S = torch.as_tensor(sos, device=reading.device).expand(len(limits))
    if sessions is None or reading.watched:
        fixed = reading.device.type == "cuda" and not reading.watched
        search = kind(rules, reading, len(limits), max(limits), fixed)
        search.begin(reading, first_S, limits)
        return complete(search, limits, partial(repeat, search.advance), patient=fixed)
    sentences, tokens = 1 << (len(limits) - 1).bit_length(), roomy(max(limits))
    key = (kind, rules, reading.likeness, sentences, tokens)
    with sessions.lend(key, lambda: kind(rules, reading, sentences, tokens, True)) as session:
        session.search.begin(reading, first_S, limits)
        return complete(session.search, limits, session.advance, patient=True)


def repeat(advance: Callable[[], None], times: int) -> None:
    for _ in range(times):
        advance()


def complete(search: Search, limits: list[int], advance: Callable[[int], None], *, patient: bool) -> list[list[Hypothesis]]:
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
        going = [row for row in going if not done[row]]
        size = 1 << (len(going) - 1).bit_length() if patient and going else len(going)
        if going and size >= search.progress.sentences:
            continue
        leaving = [row for row, sentence in enumerate(held) if done[row] and sentence not in found]
        rows_R = torch.tensor(leaving, device=search.progress.step_1.device)
        found.update(zip((held[row] for row in leaving), search.hypotheses(rows_R)))
        if going:
            rows = _places(going, size)
            search.keep(Moves.of(rows, rows_R.device))
            held, going = [held[row] for row in rows], [place for place, row in enumerate(rows) if not done[row]]
    return [found[sentence] for sentence in range(len(limits))]


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
