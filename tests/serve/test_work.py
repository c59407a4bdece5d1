"""Tickets: what is put in comes out, whole or piece by piece, in any thread."""

from __future__ import annotations

from threading import Thread

import pytest

from regard.serve.work import Cancelled, Piece, Result, Ticket


def test_pieces_and_the_result_are_read_by_another_thread() -> None:
    ticket, heard = Ticket(), list[object]()
    pieces = [Piece(0, text, [n]) for n, text in enumerate("abc")]
    ticket.put(pieces[0])
    ticket.listen(heard.append)

    def write() -> None:
        for piece in pieces[1:]:
            ticket.put(piece)
        ticket.put(Result(value=3))
        ticket.put(pieces[0])  # too late

    thread = Thread(target=write)
    thread.start()
    assert list(ticket.pieces()) == pieces
    thread.join()
    assert ticket.result(0).value == 3
    assert list(ticket.pieces()) == pieces  # again
    assert heard == [*pieces, Result(value=3)]


def test_a_reader_that_fails_is_not_called_again_and_stops_nobody() -> None:
    ticket, calls, heard = Ticket(), list[object](), list[object]()

    def gone(event: object) -> None:
        calls.append(event)
        raise RuntimeError("the loop is closed")

    ticket.listen(gone)
    ticket.listen(heard.append)
    for text in "ab":
        ticket.put(Piece(0, text, [1]))
    ticket.put(Result(value=1))
    assert len(calls) == 1
    assert len(heard) == 3
    assert ticket.result(0).value == 1


def test_an_error_ends_a_ticket() -> None:
    ticket = Ticket()
    with pytest.raises(TimeoutError):
        ticket.result(0)
    ticket.cancel()
    assert ticket.cancelled
    ticket.put(Piece(0, "a", [1]))
    ticket.put(Cancelled("this request was cancelled."))
    for read in (ticket.result, lambda: list(ticket.pieces())):
        with pytest.raises(Cancelled):
            read()
    assert ticket.done
