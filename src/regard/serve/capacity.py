"""The plan of `regard serve --dry-run`: memory of weights and of texts being written, counted as the engine counts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from regard.core.files import format_size
from regard.runs.protocols import Predictor, Streams, WritesRows
from regard.runs.routes import Serves, WriteRoute
from regard.serve.generation import Writing
from regard.serve.generator import Generator
from regard.serve.limits import Limits
from regard.serve.memory import Need, Sizes, free_memory
from regard.serve.work import Generate, Ticket
from regard.tasks.notices import LONGEST_SOURCE

ANY = 2**62  # bytes
USUAL = 256  # tokens read, and tokens written


class RowPlan(NamedTuple):
    """One text at a time: what it reads and writes, its memory, and how many of it are written together."""

    read: int
    written: int
    bytes: int
    rows: int


def lines_of(opened: Mapping[str, Predictor], limits: Limits, workers: int) -> list[str]:
    """Return the plan of these models, for people."""
    found, weights = list[str](), sum(map(weight_bytes, opened.values()))
    device = next(iter(devices(opened)), torch.device("cpu"))
    free = free_memory(device)
    room = limits.memory or free // 2
    for name, predictor in opened.items():
        found.append(f"{name}: {parameters(predictor):,} parameters, {format_size(weight_bytes(predictor))}")
        for plan in plans(predictor, limits, room):
            what = f"a text that reads {plan.read:,} and writes {plan.written:,} tokens"
            found.append(f"  {what} takes {format_size(plan.bytes)}: {plan.rows:,} are written together")
        if not isinstance(predictor, WritesRows):
            found.append(f"  answers in one pass, of at most {limits.batch:,} tokens or characters together")
    each = f", {format_size(weights * workers)} in {workers} processes" if workers > 1 else ""
    found.append(f"weights of all models: {format_size(weights)}{each}")
    free_now = f"{format_size(free)} free on {device}"
    found.append(f"texts of each model may take {format_size(room)} ({free_now}); --limit memory=BYTES and rows=N change that")
    return found


def devices(opened: Mapping[str, Predictor]) -> set[torch.device]:
    return {parameter.device for predictor in opened.values() for parameter in predictor.model.parameters()}


def parameters(predictor: Predictor) -> int:
    return sum(parameter.numel() for parameter in predictor.model.parameters())


def weight_bytes(predictor: Predictor) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in predictor.model.parameters())


def plans(predictor: Predictor, limits: Limits, room: int) -> list[RowPlan]:
    """Return what a text takes at its longest, and what a usual one does; nothing of a model that writes none."""
    if not isinstance(predictor, WritesRows):
        return []
    generator = Generator(predictor, limits.engine)
    writing = Writing.prepare(generator.writers, Generate(**source_of(predictor)), Ticket())
    assert writing is not None
    generator.reserve(writing, ANY, ANY)  # which measures a row
    (batch,) = generator.batches.values()
    sizes, reads_prompt, is_text = batch.reserved.sizes, writing.row.prompt is not None, isinstance(predictor, Streams)
    longest = predictor.window if isinstance(predictor, Streams) else longest_source(predictor)
    pairs = [(longest, longest)] if not is_text else [(longest - min(USUAL, longest // 2), min(USUAL, longest // 2))]
    if longest > 2 * USUAL:
        pairs.append((USUAL, USUAL))
    found = list[RowPlan]()
    for read, written in pairs:
        limit = min(written, limits.tokens or written)
        slots = (read if reads_prompt else 0) + writing.lanes * limit
        need = Need(len(writing.texts), slots, 0 if reads_prompt else read, limit)
        found.append(RowPlan(read, limit, sizes.bytes(need), rows_within(sizes, need, limits.rows, room)))
    return found


def source_of(predictor: Any) -> dict[str, Any]:
    """Return something that the model reads: a text, or an open picture."""
    if isinstance(predictor, Streams):
        return {"text": "a"}
    if isinstance(predictor, Serves):
        for route in predictor.routes():
            if isinstance(route, WriteRoute):
                source = next(iter(route.sources(predictor, route.body.model_validate(route.example))))
                return {"text": source} if isinstance(source, str) else {"text": "", "picture": source}
    return {"text": predictor.example}


def longest_source(predictor: WritesRows) -> int:
    """Return the tokens that a source may have: learned positions end."""
    return int(getattr(predictor.model.config, "context", None) or LONGEST_SOURCE)


def rows_within(sizes: Sizes, need: Need, most: int, room: int) -> int:
    """Return how many such rows are written together within this memory."""
    fitting = (rows for rows in range(most, 0, -1) if sizes.bytes(need._replace(rows=rows)) <= room)
    return next(fitting, 0)
