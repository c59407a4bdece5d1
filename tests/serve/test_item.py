"""Items: when one is lost, and what its error says."""

from __future__ import annotations

from regard.core.errors import UserError
from regard.serve.item import Item, is_lost, readable
from regard.serve.work import Generate, Ticket


def test_an_item_is_lost_when_it_is_late_or_cancelled() -> None:
    item = Item(Generate(text=""), "key", Ticket(), accepted=1.0, deadline=3.0)
    assert [is_lost(item, now) for now in (1.0, 2.9, 3.0)] == [False, False, True]
    item.ticket.cancel()
    assert is_lost(item, 1.0)


def test_a_mistake_keeps_its_sentence_and_a_failure_its_cause() -> None:
    mistake, failure = UserError("this is too long; shorten it."), ValueError("a\nb")
    assert readable(mistake) is mistake
    told = readable(failure)
    assert isinstance(told, UserError)
    assert str(told).startswith("the model failed on this request: ValueError: a")
    assert told.__cause__ is failure
