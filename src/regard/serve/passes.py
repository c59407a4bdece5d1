"""Inputs that a model answers in a single pass: those of similar length together, and a bad one alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.runs.protocols import Predictor
from regard.serve.fair_queue import FairQueue
from regard.serve.item import Item, readable
from regard.serve.work import Answer, EngineSettings, Result

SIMILAR = 2  # inputs of one pass differ in length by less than this factor


def take_similar(queue: FairQueue[Item], settings: EngineSettings, memory: int) -> list[Item]:
    """Take the input whose turn it is, and those like it as far as the length of a pass and this memory go."""
    first = queue.peek()
    if first is None:
        return []
    work, longest, size, chosen = answer_of(first), 0, 0, list[Item]()
    for item in (first, *(other for other in queue if other is not first)):
        other = answer_of(item)
        low, high = sorted((other.length, work.length))
        longest_now, size_now = max(longest, other.length), size + other.bytes
        fits = (len(chosen) + 1) * longest_now <= settings.batch_length and size_now <= memory
        alike = other.batch is work.batch and high < SIMILAR * max(1, low)
        if item is first or (alike and fits and len(chosen) < settings.rows):
            chosen.append(item)
            longest, size = longest_now, size_now
    taken = set(chosen)
    queue.remove(lambda item: item in taken)
    return chosen


def answer_together(predictor: Predictor, items: Sequence[Item]) -> None:
    """Do one pass over these inputs; where several fail together, each is tried alone."""
    try:
        with torch.no_grad():
            values = list(answer_of(items[0]).batch(predictor, [answer_of(item).inputs for item in items]))
        if len(values) != len(items):
            raise RuntimeError(f"{len(items)} inputs were given, and {len(values)} results came back")
    except Exception as error:
        if len(items) == 1:
            items[0].ticket.put(readable(error))
            return
        for item in items:
            answer_together(predictor, [item])
        return
    for item, value in zip(items, values):
        item.ticket.put(Result(value=value))


def answer_of(item: Item) -> Answer:
    assert isinstance(item.work, Answer)
    return item.work
