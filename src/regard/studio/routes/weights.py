"""Questions about weights: aggregated, as tiles and pictures, statistics of heads, the arithmetic of one weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import Query

from regard.core.errors import UserError
from regard.lens.analyses.weights import Aggregation, Join, Specials, aggregate, part_of
from regard.model.mixers.convolution import Convolution
from regard.model.probe import Seen, attentions
from regard.studio import arithmetic, passes
from regard.studio.passes import ModelPass
from regard.studio.routes import Count, Look, Name, Questions, Studio

Span = Annotated[str, Query(pattern=r"^\d{1,6}:\d{1,6}$")]
Heads = Annotated[str, Query(pattern=r"^\d{1,4}(,\d{1,4}){0,255}$")]
router = Questions()


@router.ask("/api/weights", "reads")
def weights(
    studio: Studio, look: Look, name: Name, heads: Heads | None = None,
    words: bool = False, specials: Specials = "keep", values: bool = False, join: Join = "none",
) -> dict[str, Any]:  # fmt: skip
    """Aggregated weights of an attention, or of all attentions of a part ("cross", "decoder", "encoder") joined."""
    how = Aggregation(words=words, specials=specials, values=values, join=join)
    names = [one for one in look.seen if part_of(one) == name] or [name]
    chosen = None if heads is None else [int(head) for head in heads.split(",")]
    size = 0
    for one in names:
        count, queries, keys = passes.shape(look.attention(one))
        _check_heads(look, one, chosen or [0])
        if values and isinstance(attentions(look.subject.model)[one], Convolution):
            raise UserError(f"{one} does not attend, so no weight brings a value; leave values out.")
        size += (count if chosen is None else len(chosen)) * queries * keys
    if size > passes.MOST:
        raise UserError(f"that is more than {passes.MOST:,} weights at once; ask for an overview, or for fewer heads.")
    if len(names) > 1 and join == "none":
        raise UserError(f"{name} has {len(names)} layers; give join=mean or join=max, or one of {', '.join(names)}.")
    return aggregate(look.subject, look.seen, names, chosen, how).packed()


@router.ask("/api/tile", "reads")
def tile(
    studio: Studio, look: Look, name: Name, head: Count, rows: Span | None = None, columns: Span | None = None
) -> np.ndarray:
    seen, down, across = _window(look, name, head, rows, columns)
    if len(down) * len(across) > passes.MOST:
        raise UserError(f"that is more than {passes.MOST:,} weights at once; ask for an overview, or for fewer rows.")
    return passes.exact(seen, [head], down, across)[0]


@router.ask("/api/overview", "reads")
def overview(
    studio: Studio, look: Look, name: Name, head: Count, size: Annotated[int, Query(ge=1, le=1024)] = 512,
    rows: Span | None = None, columns: Span | None = None,
) -> np.ndarray:  # fmt: skip
    seen, down, across = _window(look, name, head, rows, columns)
    return passes.as_bytes(passes.pooled(seen, [head], down, across, size)[0])


@router.ask("/api/thumbnails", "reads")
def thumbnails(studio: Studio, look: Look, name: Name) -> np.ndarray:
    return passes.thumbnails(look.attention(name))


@router.ask("/api/heads", "reads")
def statistics(studio: Studio, look: Look) -> dict[str, Any]:
    return passes.statistics(look)


@router.ask("/api/arithmetic", "passes")
def one_weight(studio: Studio, look: Look, name: Name, head: Count, query: Count, key: Count) -> dict[str, Any]:
    place = arithmetic.Place(name, head, query, key)
    return arithmetic.arithmetic(arithmetic.trace(look, place, studio.runs.alone(look.session)))


@router.ask("/api/terms", "passes")
def terms(
    studio: Studio, look: Look, name: Name, head: Count, query: Count, key: Count, vector: Name, index: Count
) -> dict[str, Any]:
    place = arithmetic.Place(name, head, query, key)
    return arithmetic.terms(arithmetic.trace(look, place, studio.runs.alone(look.session)), vector, index)


def _window(look: ModelPass, name: str, head: int, rows: str | None, columns: str | None) -> tuple[Seen, range, range]:
    """Return an attention that has this head, with the rows and columns that are asked for."""
    _check_heads(look, name, [head])
    seen = look.attention(name)
    _, queries, keys = passes.shape(seen)
    return seen, _span(rows, queries, "rows"), _span(columns, keys, "columns")


def _span(given: str | None, most: int, what: str) -> range:
    first, last = (0, most) if given is None else map(int, given.split(":"))
    if not 0 <= first < last <= most:
        raise UserError(f"{what} {given} are not there; there are {most}, so give some from 0:{most}.")
    return range(first, last)


def _check_heads(look: ModelPass, name: str, heads: Sequence[int]) -> None:
    count = passes.shape(look.attention(name))[0]
    if max(heads) >= count:
        raise UserError(f"head {max(heads)} is not there; {name} has {count}, numbered from 0.")
