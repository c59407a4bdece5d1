"""`/v1/completions` and `/v1/chat/completions`: texts that a model goes on with, whole or as they are written."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response

from regard.runs.protocols import Streams
from regard.serve.bridge import Asked, events_of, give_up, or_gone
from regard.serve.errors import Json, Refused
from regard.serve.models import CHAT, COMPLETIONS
from regard.serve.openai_bodies import ChatBody, ChatReply, CompletionBody, CompletionReply, StreamOptions, Writing
from regard.serve.streaming import DONE, EventStream, event
from regard.serve.templates import STOP, transcript, turns
from regard.serve.work import Piece, Result, Sample, Ticket, TokenScore, Work
from regard.serve.writing import finite, generate, usage
from regard.tasks.bodies import listed, must_have_words

router = APIRouter()


@dataclass
class Header:
    """The fields that every chunk of an answer begins with."""

    prefix: str  # of ids
    kind: str  # the field `object` of a whole answer
    chunk: str  # and of a piece
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self.id = f"{self.prefix}-{uuid.uuid4().hex}"

    def content(self, model: str, choices: Sequence[dict[str, Any]], *, chunk: bool = False) -> dict[str, Any]:
        kind = self.chunk if chunk else self.kind
        return {"id": self.id, "object": kind, "created": self.created, "model": model, "choices": list(choices)}


class Shape(Protocol):
    """How one of the two APIs writes whole texts, and pieces of them."""

    header: Header

    def whole(self, index: int, sample: Sample) -> dict[str, Any]: ...

    def begun(self, index: int) -> dict[str, Any] | None:
        """Return the first chunk of a text, before any of it is written; None where there is none."""

    def piece(self, index: int, piece: Piece) -> dict[str, Any]: ...

    def ended(self, index: int, sample: Sample) -> dict[str, Any]: ...


@dataclass
class CompletionShape:
    header: Header = field(default_factory=lambda: Header("cmpl", "text_completion", "text_completion"))
    offsets: dict[int, int] = field(default_factory=dict)  # characters of each streamed text so far

    def whole(self, index: int, sample: Sample) -> dict[str, Any]:
        scores = completion_logprobs(sample.logprobs, 0)
        return {"index": index, "text": sample.text, "logprobs": scores, "finish_reason": sample.finish}

    def begun(self, index: int) -> None:
        return None

    def piece(self, index: int, piece: Piece) -> dict[str, Any]:
        begin = self.offsets.get(index, 0)
        self.offsets[index] = begin + len(piece.text)
        return {"index": index, "text": piece.text, "logprobs": completion_logprobs(piece.logprobs, begin), "finish_reason": None}

    def ended(self, index: int, sample: Sample) -> dict[str, Any]:
        return {"index": index, "text": "", "logprobs": None, "finish_reason": sample.finish}


@dataclass
class ChatShape:
    header: Header = field(default_factory=lambda: Header("chatcmpl", "chat.completion", "chat.completion.chunk"))

    def whole(self, index: int, sample: Sample) -> dict[str, Any]:
        said = {"role": "assistant", "content": sample.text, "refusal": None}
        return {"index": index, "message": said, "logprobs": chat_logprobs(sample.logprobs), "finish_reason": sample.finish}

    def begun(self, index: int) -> dict[str, Any]:
        return {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}

    def piece(self, index: int, piece: Piece) -> dict[str, Any]:
        scores = chat_logprobs(piece.logprobs)
        return {"index": index, "delta": {"content": piece.text}, "logprobs": scores, "finish_reason": None}

    def ended(self, index: int, sample: Sample) -> dict[str, Any]:
        return {"index": index, "delta": {}, "logprobs": None, "finish_reason": sample.finish}


def completion_logprobs(scores: Sequence[TokenScore] | None, begin: int) -> dict[str, Any] | None:
    """Return log-probabilities as lists; an offset is where a token begins in the text, each counted by its printed length."""
    if scores is None:
        return None
    offsets, at = list[int](), begin
    for score in scores:
        offsets.append(at)
        at += len(score.token)
    likely = [{token: finite(logprob) for _, token, logprob in score.top} for score in scores]
    return {
        "tokens": [score.token for score in scores],
        "token_logprobs": [finite(score.logprob) for score in scores],
        "top_logprobs": likely if any(likely) else None,
        "text_offset": offsets,
    }


def chat_logprobs(scores: Sequence[TokenScore] | None) -> dict[str, Any] | None:
    if scores is None:
        return None

    def told(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": finite(logprob), "bytes": list(token.encode("utf-8", "replace"))}

    each = [{**told(one.token, one.logprob), "top_logprobs": [told(token, p) for _, token, p in one.top]} for one in scores]
    return {"content": each, "refusal": None}


@router.post(COMPLETIONS, response_model=CompletionReply, summary="Texts that go on from prompts")
async def complete(request: Request, body: CompletionBody) -> Response:
    asked = begin(request, body, COMPLETIONS)
    prompts = listed(body.prompt)
    asked.api.check_texts(prompts)
    given = body.model_dump(exclude_none=True)
    more = options(asked, body, body.logprobs)
    works = [generate(asked, prompt, given, **more) for prompt in prompts]
    return await answered(asked, body, works, CompletionShape())


@router.post(CHAT, response_model=ChatReply, summary="The next message of a conversation")
async def chat(request: Request, body: ChatBody) -> Response:
    asked = begin(request, body, CHAT)
    asked.api.check_texts([message.plain()["content"] for message in body.messages[-1:]])
    if body.top_logprobs is not None and not body.logprobs:
        raise Refused("top_logprobs needs logprobs=true; give both, or none.", param="top_logprobs")
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise Refused("max_tokens and max_completion_tokens mean the same; leave one of them out.", param="max_tokens")
    given = body.model_dump(exclude_none=True)
    given["max_tokens"] = body.max_tokens or body.max_completion_tokens
    source, stops = conversation(asked, body)
    asked.api.check_texts([str(source)])
    more = options(asked, body, (body.top_logprobs or 0) if body.logprobs else None, stops)
    return await answered(asked, body, [generate(asked, source, given, **more)], ChatShape())


def begin(request: Request, body: Writing, path: str) -> Asked:
    asked = Asked.begin(request, body.model, path)
    if asked.api.log_texts:
        asked.record.body = body.model_dump(exclude_none=True, by_alias=True)
    return asked


def conversation(asked: Asked, body: ChatBody) -> tuple[str, tuple[str, ...]]:
    """Return the text that a model reads of a conversation, and what ends its turn."""
    messages, predictor = [message.plain() for message in body.messages], asked.model.predictor
    if messages[-1]["role"] == "assistant":
        raise Refused("the last message is the assistant's; end with one that it answers.", param="messages")
    must_have_words(messages[-1]["content"], "last message")
    if not isinstance(predictor, Streams):  # a model of dialogues: its route knows how it reads turns
        route = asked.model.replying
        assert route is not None
        (source,) = route.sources(predictor, route.body.model_validate({"turns": turns(messages)}))
        return source, ()
    if asked.model.opened.template is not None:
        return asked.model.opened.template.render(messages), ()
    return transcript(messages), (STOP,)


def options(asked: Asked, body: Writing, logprobs: int | None, stops: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields of `Generate` that every text of a request has."""
    if body.stream_options is not None and not body.stream:
        raise Refused("stream_options is for stream=true; leave it out.", param="stream_options")
    allowed = None
    if body.response_format is not None and body.response_format.type != "text":
        guide = asked.model.opened.guide
        if guide is None:
            raise Refused("this model writes no JSON by a schema; leave response_format out.", param="response_format")
        allowed = guide.mask(body.response_format.schema_of())
    stop = (*(listed(body.stop) if body.stop is not None else ()), *stops)
    return {"stop": stop, "logprobs": logprobs, "allowed": allowed}


async def answered(asked: Asked, body: Writing, works: Sequence[Work], shape: Shape) -> Response:
    name, samples = asked.model.name, body.n or 1
    if body.stream:
        asked.record.streamed = True
        return await begun_stream(asked, asked.submit(works), shape, samples, body.stream_options or StreamOptions())
    results = await asked.results(works)
    choices = [
        shape.whole(number * samples + n, sample)
        for number, result in enumerate(results)
        for n, sample in enumerate(result.samples)
    ]
    counted = usage(sum(one.prompt_tokens for one in results), sum(one.generated_tokens for one in results))
    return Json(shape.header.content(name, choices) | {"usage": counted})


async def begun_stream(
    asked: Asked, tickets: Sequence[Ticket], shape: Shape, samples: int, options: StreamOptions
) -> EventStream:
    """Return a stream once its first event is there: a prompt that cannot be read is refused with a status of its own."""
    chunks = streamed(asked, tickets, shape, samples, options.include_usage)
    try:
        first = await or_gone(asked.request, anext(chunks))
    except BaseException:
        give_up(tickets)
        raise

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return EventStream(whole(), lambda: give_up(tickets))


async def streamed(asked: Asked, tickets: Sequence[Ticket], shape: Shape, samples: int, with_usage: bool) -> AsyncIterator[bytes]:
    name, began, results = asked.model.name, time.monotonic(), list[Result]()

    def chunk(choices: Sequence[dict[str, Any]], **more: Any) -> bytes:
        return event(shape.header.content(name, choices, chunk=True) | ({"usage": None} if with_usage else {}) | more)

    begun = [first for index in range(len(tickets) * samples) if (first := shape.begun(index)) is not None]
    async for number, happened in events_of(tickets):
        if isinstance(happened, Exception):
            raise happened
        while begun:
            yield chunk([begun.pop(0)])
        if isinstance(happened, Piece):
            if asked.record.first_token is None:
                asked.record.first_token = time.monotonic() - began
            yield chunk([shape.piece(number * samples + happened.sample, happened)])
            continue
        results.append(happened)
        asked.count([happened])
        for n, sample in enumerate(happened.samples):
            yield chunk([shape.ended(number * samples + n, sample)])
    if with_usage:
        counted = usage(sum(one.prompt_tokens for one in results), sum(one.generated_tokens for one in results))
        yield chunk([], usage=counted)
    yield DONE
