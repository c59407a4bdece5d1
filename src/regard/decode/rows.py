"""One row of a search: what a model reads of one text, and what may be written from it.

A task turns a text into a `SearchRow`. `request_of` makes one request of rows whose options are equal, for `search` or for a
running batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.decode.config import BeamSettings, Sampling
from regard.decode.request import SearchRequest
from regard.model.state.protocol import EncodedInput


@dataclass(frozen=True, kw_only=True)
class SearchRow:
    """One text to be written from what was read."""

    read: Any  # what the model encodes before the first step: token ids, or the pixels of an image
    length: int  # of that, in tokens or cells
    sos: int  # the first token, which the first step reads
    limit: int  # the most tokens to write, the end token counted
    options: Mapping[str, Any]  # the other keyword arguments of `SearchRequest` that all rows with these settings share
    prompt: tuple[int, ...] | None = None  # the whole prompt, which ends with `sos`, where a text goes on from one
    forced: tuple[int, ...] = ()  # tokens that the text begins with


def request_of(
    encoded: EncodedInput, rows: Sequence[SearchRow], method: Sampling | BeamSettings, seeds: Sequence[int] = ()
) -> SearchRequest:
    """Return the request for rows with equal options, which were encoded in this order."""
    prompts = [row.prompt for row in rows if row.prompt is not None]
    return SearchRequest(
        encoded=encoded,
        sos=torch.tensor([row.sos for row in rows], device=encoded.device),
        limits=[row.limit for row in rows],
        method=method,
        seeds=seeds,
        prompts=prompts or None,
        forced=[row.forced for row in rows] if any(row.forced for row in rows) else None,
        **rows[0].options,
    )
