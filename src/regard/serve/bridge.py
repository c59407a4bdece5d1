"""Between the event loop and the engines' threads: work is submitted, awaited or streamed, and given up when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request

from regard.serve.errors import ClientGone, Refused
from regard.serve.journal import Record, record_of
from regard.serve.limits import Limits
from regard.serve.models import Models, ServedModel
from regard.serve.work import Event, Piece, Result, Ticket, Work

T = TypeVar("T")


@dataclass
class Api:
    """State that all routes share."""

    models: Models
    limits: Limits
    log_texts: bool = False
    draining: bool = False  # no request is accepted any more, but those that were are answered

    def check_texts(self, texts: Sequence[object]) -> None:
        """Refuse more inputs than a request may have, and texts that are too long."""
        if len(texts) > self.limits.texts:
            raise Refused(f"the request has {len(texts):,} inputs, and {self.limits.texts:,} are taken; send several requests.")
        for text in texts:
            for part in text if isinstance(text, tuple) else (text,):  # such as a question and its context
                if isinstance(part, str) and len(part) > (most := self.limits.characters):
                    raise Refused(f"a text has {len(part):,} characters, and {most:,} are taken; shorten it.")


def api_of(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


@dataclass
class Asked:
    """One request on its way to an engine."""

    request: Request
    api: Api
    model: ServedModel
    record: Record

    @classmethod
    def begin(cls, request: Request, name: str | None, path: str) -> Asked:
        """Find the model that answers this path, and write down who is asked."""
        api, record = api_of(request), record_of(request.scope)
        model = api.models.find(name, path)
        record.model = model.name
        return cls(request, api, model, record)

    def submit(self, works: Sequence[Work]) -> list[Ticket]:
        """Submit all of these, or none."""
        tickets = list[Ticket]()
        try:
            for work in works:
                tickets.append(self.model.engine.submit(work, key=str(self.record.key), deadline=self.api.limits.timeout))
        except Exception:
            give_up(tickets)
            raise
        return tickets

    async def results(self, works: Sequence[Work]) -> list[Result]:
        """Return the result of each; the others are given up when one fails or the client goes."""
        tickets = self.submit(works)
        try:
            found = await or_gone(self.request, asyncio.gather(*map(result_of, tickets)))
        except BaseException:
            give_up(tickets)
            raise
        self.count(found)
        return found

    def count(self, results: Sequence[Result]) -> None:
        """Write down tokens, and texts where these are logged."""
        self.record.prompt_tokens += sum(result.prompt_tokens for result in results)
        self.record.completion_tokens += sum(result.generated_tokens for result in results)
        if self.api.log_texts:
            texts = [sample.text for result in results for sample in result.samples]
            self.record.outputs = [*(self.record.outputs or ()), *texts] or None


async def result_of(ticket: Ticket) -> Result:
    """Wait for a result without a thread of its own."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(event: Event) -> None:
        if future.done():
            return
        if isinstance(event, Result):
            future.set_result(event)
        elif isinstance(event, Exception):
            future.set_exception(event)

    def heard(event: Event) -> None:
        if not isinstance(event, Piece):
            _tell(loop, lambda: settle(event))

    ticket.listen(heard)
    return await future


async def events_of(tickets: Sequence[Ticket]) -> AsyncIterator[tuple[int, Event]]:
    """Yield what happens to several tickets, each event with the number of its ticket, until all of them have ended."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Event]]()

    def listener(number: int) -> Callable[[Event], None]:
        return lambda event: _tell(loop, lambda: queue.put_nowait((number, event)))

    for number, ticket in enumerate(tickets):
        ticket.listen(listener(number))
    left = len(tickets)
    while left:
        number, event = await queue.get()
        left -= not isinstance(event, Piece)
        yield number, event


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed, so no request waits
        loop.call_soon_threadsafe(call)


def give_up(tickets: Sequence[Ticket]) -> None:
    for ticket in tickets:
        ticket.cancel()


async def or_gone(request: Request, wanted: Awaitable[T]) -> T:
    """Wait for something, but only as long as the client does."""
    task, gone = asyncio.ensure_future(wanted), asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        for one in (task, gone):
            if not one.done():
                one.cancel()


async def disconnected(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
