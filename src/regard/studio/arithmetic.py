"""One weight, number by number: from two tokens' vectors to what the head adds to the stream, with the model's own numbers.

Vaswani et al. 2017, equation 1, for query i and key j of one head: q_i = x_i W_Q, k_j = x_j W_K, score = q_i . k_j / sqrt(K),
what is not seen is left out, softmax over all keys, context = sum_j a_ij v_j, then this head's columns of W_O. Every vector says
which tensor and which of its rows it comes from; `terms` has the products that a single number is the sum of. Rotary positions
turn q and k, so that a number of them comes from two rows; a bias by distance is added to the scores; with model.scaled=false
nothing is divided; heads that share a key/value head have the same rows of W_K and W_V.

Dims: D width, K head width, M keys.

A single number of the arithmetic as a sum: the products it is made of, largest first, and the matrix row they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.attention import Attention
from regard.model.block import Stack
from regard.model.embedding import Embed
from regard.model.mixers.convolution import Convolution
from regard.model.position.base import Placement
from regard.model.probe import Seen, attentions, probe
from regard.studio.passes import ModelPass, shape


@dataclass(frozen=True)
class Place:
    """One weight: attention, head, query and key."""

    name: str
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class Traced:
    """A pass in which the attention of one weight was watched: what went in, and what came out."""

    model_pass: ModelPass
    place: Place
    attention: Attention
    path: str  # of the module, as its weights are called in a checkpoint
    asked_LD: Tensor  # what queries are made of
    shown_MD: Tensor  # what keys and values are made of
    context_LD: Tensor
    out_LD: Tensor
    rotation: Placement | None  # of queries and keys, by rotary positions

    @property
    def seen(self) -> Seen:
        return self.model_pass.attention(self.place.name)

    @property
    def columns(self) -> slice:
        """The columns of W_O that are this head's."""
        wide = self.attention.head_width
        return slice(self.place.head * wide, (self.place.head + 1) * wide)

    def query(self) -> tuple[Tensor, float]:
        """Return q_K, and what q . k is divided by; an unscaled attention hands its mixer q times the root of K."""
        root = self.attention.head_width**0.5
        q_K = self.seen.q_BHLK[0, self.place.head, self.place.query].float()
        return (q_K, root) if self.attention.scaled else (q_K / root, 1.0)


@contextmanager
def _watched(attention: Attention) -> Iterator[dict[str, Tensor]]:
    """Yield what queries and keys are made of, the context and what comes out, of the latest pass."""
    found: dict[str, Tensor] = {}

    def made(_: nn.Module, given: tuple[Any, ...], result: Tensor) -> None:
        found.update(context=given[0][0], out=result[0])

    asks = attention.project if attention.query is None else attention.query
    with (
        asks.register_forward_pre_hook(lambda _, given: found.update(asked=given[0][0])),
        attention.project.register_forward_pre_hook(lambda _, given: found.update(shown=given[0][0])),
        attention.out.register_forward_hook(made),
    ):
        yield found


@torch.no_grad()
def trace(model_pass: ModelPass, place: Place, alone: Lock) -> Traced:
    """Check a place, and pass the text once more to see what its attention is given and gives."""
    check(model_pass, place)
    model, name = model_pass.subject.model, place.name
    attention = attentions(model)[name]
    if isinstance(attention, Convolution):
        raise UserError(f"{name} does not attend, so there are no queries and keys to multiply; give another.")
    if not isinstance(attention, Attention):
        raise UserError(f"{name} has no matrices that make queries, keys and values: it scores what was read as it is. See Head.")
    path = next(path for path, module in model.named_modules() if module is attention)
    with alone, probe(model) as recorded, _watched(attention) as seen:
        model_pass.subject.forward(1)
    stack = next((module for module in model.modules() if isinstance(module, Stack) and attention in [*module.modules()]), None)
    at = None if stack is None or stack.position is None else stack.position.over(recorded[name].view)
    rotation = at if at is not None and at.rotates and attention.query is None else None
    asked_LD, shown_MD, context_LD, out_LD = (seen[name].float() for name in ("asked", "shown", "context", "out"))
    return Traced(model_pass, place, attention, path, asked_LD, shown_MD, context_LD, out_LD, rotation)


@torch.no_grad()
def arithmetic(traced: Traced) -> dict[str, Any]:
    """Return every step of a weight, from its tokens' vectors to what its head adds."""
    place, seen, columns, (q_K, scale) = traced.place, traced.seen, traced.columns, traced.query()
    k_MK, v_MK = seen.k_BHMK[0, place.head].float(), seen.v_BHMK[0, place.head].float()
    sees_M = seen.view.rows(torch.tensor([place.query])).expand(1, -1, -1, -1)[0, -1, 0].expand(len(k_MK))
    row_1, head_1 = (torch.tensor([n], device=q_K.device) for n in (place.query, place.head))
    bias_M = None if seen.bias is None else seen.bias.rows(row_1, head_1)[0, 0, 0].float().expand(len(k_MK))
    scores_M = k_MK @ q_K / scale + (0 if bias_M is None else bias_M)
    weights_M = seen.weights([place.head], [place.query])[0, 0, 0]
    softmax_M = scores_M.masked_fill(sees_M == 0, -torch.inf).softmax(-1)
    if not torch.allclose(softmax_M.nan_to_num(), weights_M, atol=1e-3):
        raise UserError("these sums are those of scaled dot-product attention, and this model mixes otherwise (model.mixer).")
    context_K = weights_M @ v_MK
    share_D = traced.attention.out.weight[:, columns].float() @ context_K
    queries, keys = traced.model_pass.subject.around(place.name)
    return {
        "query": {"token": queries.tokens[place.query], "row": place.query, **_vector_of(traced, "query")},
        "key": {"token": keys.tokens[place.key], "row": place.key, **_vector_of(traced, "key")},
        "x_query": traced.asked_LD[place.query].tolist(),
        "x_key": traced.shown_MD[place.key].tolist(),
        "q": q_K.tolist(),
        "k": k_MK[place.key].tolist(),
        "products": (q_K * k_MK[place.key]).tolist(),
        "dot": float(q_K @ k_MK[place.key]),
        "scale": scale,
        "bias": None if bias_M is None else bias_M.tolist(),
        "rotated": traced.rotation is not None,
        "sees": sees_M.tolist(),
        "scores": scores_M.tolist(),
        "weights": weights_M.tolist(),
        "keys": list(keys.tokens),
        "v": v_MK[place.key].tolist(),
        "context": context_K.tolist(),
        "share": share_D.tolist(),
        "out": traced.out_LD[place.query].tolist(),
        "difference": float((context_K - traced.context_LD[place.query, columns]).abs().max()),
        "sources": sources(traced),
    }


def sources(traced: Traced) -> dict[str, Any]:
    """Return where a number of each vector comes from: the tensor, and the row that gives its first number."""
    path, attention, cross = traced.path, traced.attention, traced.attention.query is not None
    begin, wide = traced.columns.start, attention.head_width
    shared = traced.place.head // (attention.heads // attention.kv_heads) * wide
    first = 0 if cross else attention.inner
    return {
        "q": {"tensor": f"{path}.query.weight" if cross else f"{path}.project.weight", "first": begin},
        "k": {"tensor": f"{path}.project.weight", "first": first + shared},
        "v": {"tensor": f"{path}.project.weight", "first": first + attention.kv_heads * wide + shared},
        "share": {"tensor": f"{path}.out.weight", "first": 0, "columns": [begin, begin + wide]},
    }


@torch.no_grad()
def _vector_of(traced: Traced, side: str) -> dict[str, Any]:
    """The token's embedding and its position's vector; a cell of an image, or a time of a series, has none."""
    subject, place = traced.model_pass.subject, traced.place
    stack = subject.between(place.name)[side == "key"]
    tokens, row = subject.sides[stack], place.query if side == "query" else place.key
    pixels = subject.image is not None and (stack == subject.image.stack or subject.outputs is None)
    if pixels or subject.series is not None:
        return {"id": None, "stack": stack, "embedding": None, "position": None}
    embed, path = _embed(subject.model, stack)
    word = embed.tokens.weight[tokens.ids[row]].float() * embed.scale
    positions_1 = torch.tensor([row], device=word.device)
    where = embed.positions(positions_1)
    return {
        "id": tokens.ids[row],
        "stack": stack,
        "embedding": word.tolist(),
        "position": None if where is None else where[0].float().tolist(),
        "embedding_from": {"tensor": f"{path}.tokens.weight", "row": tokens.ids[row], "scale": embed.scale},
        "position_from": {"kind": embed.positions.kind, "row": row},
    }


def _embed(model: nn.Module, stack: str) -> tuple[Embed, str]:
    """The embedding a stack starts from: a translator has one a side, all others have one."""
    found = {path: module for path, module in model.named_modules() if isinstance(module, Embed)}
    path = {"encoder": "source", "decoder": "target"}[stack]
    path = path if path in found else next(iter(found))
    return found[path], path


def check(model_pass: ModelPass, place: Place) -> None:
    """Refuse a head, a query or a key that is not there."""
    heads, queries, keys = shape(model_pass.attention(place.name))
    for what, given, most in (("head", place.head, heads), ("query", place.query, queries), ("key", place.key, keys)):
        if not 0 <= given < most:
            raise UserError(f"{what} {given} is not there; {place.name} has {most}, numbered from 0.")


TERMS = 12  # shown one by one


class Sum(NamedTuple):
    """A number as the sum of products a x b, each called by a name, and a bias."""

    names: list[str]
    a: Tensor
    b: Tensor
    source: str
    bias: float = 0.0


@torch.no_grad()
def terms(traced: Traced, vector: str, index: int) -> dict[str, Any]:
    """Number `index` of a vector as the products it is the sum of: the largest, and the sum of the rest."""
    wide, deep = traced.attention.head_width, traced.out_LD.shape[1]
    sizes = {"q": wide, "k": wide, "v": wide, "dot": 1, "context": wide, "share": deep, "out": deep}
    if vector not in sizes:
        raise UserError(f"there is no vector {vector[:20]!r}; ask for one of {', '.join(sizes)}.")
    if not 0 <= index < sizes[vector]:
        raise UserError(f"{vector} has no number {index}; it has {sizes[vector]}, numbered from 0.")
    found = _projected(traced, vector, index) if vector in "qkv" else _mixed(traced, vector, index)
    products = found.a * found.b
    order = products.abs().argsort(descending=True)[:TERMS].tolist()
    shown = [{"of": found.names[n], "a": float(found.a[n]), "b": float(found.b[n]), "product": float(products[n])} for n in order]
    total = float(products.sum())
    rest, whole = total - sum(term["product"] for term in shown), total + found.bias
    return {"source": found.source, "terms": shown, "of": len(products), "rest": rest, "bias": found.bias, "sum": whole}


def _projected(traced: Traced, vector: str, index: int) -> Sum:
    """q, k and v: a row of a matrix times the vector that goes in."""
    source, attention, place = sources(traced)[vector], traced.attention, traced.place
    module = attention.query if vector == "q" and attention.query is not None else attention.project
    x_D = traced.asked_LD[place.query] if vector == "q" else traced.shown_MD[place.key]
    turn_K = _rotation_row(traced, place.query if vector == "q" else place.key, index, vector)
    used = turn_K.nonzero().flatten()
    rows = used + source["first"]
    bias = 0.0 if module.bias is None else float(turn_K[used] @ module.bias[rows].float())
    names = [f"x[{n}]" for n in range(len(x_D))]
    told = ", ".join(
        f"row {row}" if share == 1 else f"{share:.3f} x row {row}" for share, row in zip(turn_K[used].tolist(), rows)
    )
    return Sum(names, turn_K[used] @ module.weight[rows].float(), x_D, f"{source['tensor']}, {told}", bias)


def _rotation_row(traced: Traced, token: int, index: int, vector: str) -> Tensor:
    """Return one row of the matrix that rotary positions multiply a query or key by; without them, of the identity."""
    wide = traced.attention.head_width
    if traced.rotation is None or vector == "v":
        return torch.eye(wide, device=traced.out_LD.device)[index]
    x_11LK = torch.zeros(1, 1, len(traced.shown_MD), wide, device=traced.out_LD.device, requires_grad=True)
    with torch.enable_grad():
        number = traced.rotation.rotate(x_11LK)[0, 0, token, index]
    return torch.autograd.grad(number, x_11LK)[0][0, 0, token]


def _mixed(traced: Traced, vector: str, index: int) -> Sum:
    """Return the terms of what follows: q . k, the mixed values, and the output projection, of this head or of all."""
    place, seen, columns, wide, out = traced.place, traced.seen, traced.columns, traced.attention.head_width, traced.attention.out
    context_I = traced.context_LD[place.query]
    if vector == "dot":
        k_K = seen.k_BHMK[0, place.head, place.key].float()
        return Sum([f"q[{n}] k[{n}]" for n in range(wide)], traced.query()[0], k_K, "q . k")
    if vector == "context":
        weights_M = seen.weights([place.head], [place.query])[0, 0, 0]
        keys = traced.model_pass.subject.around(place.name)[1].tokens
        return Sum(list(keys), weights_M, seen.v_BHMK[0, place.head, :, index].float(), f"weights x column {index} of v")
    if vector == "share":
        names = [f"context[{n}]" for n in range(wide)]
        source = f"{traced.path}.out.weight, row {index}, columns {columns.start} to {columns.stop - 1}"
        return Sum(names, out.weight[index, columns].float(), context_I[columns], source)
    parts_H = (out.weight[index].float() * context_I).unflatten(0, (-1, wide)).sum(-1)
    names = [f"head {head}" for head in range(len(parts_H))]
    bias = 0.0 if out.bias is None else float(out.bias[index])
    return Sum(names, parts_H, torch.ones_like(parts_H), f"all heads through {traced.path}.out.weight, row {index}", bias)
