"""One piece of work on its way through the engine."""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.errors import UserError
from regard.serve.generation import Writing
from regard.serve.work import Ticket, Work


@dataclass(eq=False)
class Item:
    """One piece of work, from its acceptance to its result."""

    work: Work
    key: str
    ticket: Ticket
    accepted: float
    deadline: float  # on the engine's clock
    answered: bool = False  # has its first piece or its result been counted?
    prepared: Writing | None = None  # of a text that waits for room


def is_lost(item: Item, now: float) -> bool:
    return item.ticket.cancelled or now >= item.deadline


def readable(error: Exception) -> Exception:
    """Return an error with a sentence for the client; an error of the server is kept as its cause."""
    if isinstance(error, UserError):
        return error
    sentence = UserError(f"the model failed on this request: {type(error).__name__}: {error}")
    sentence.__cause__ = error
    return sentence
