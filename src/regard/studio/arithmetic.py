"""One weight, number by number: from two tokens' vectors to what the head adds to the stream, with the model's own numbers.

Vaswani et al. 2017, equation 1, for query i and key j of one head: q_i = x_i W_Q, k_j = x_j W_K, score = q_i . k_j / sqrt(K),
what is not seen is left out, softmax over all keys, context = sum_j a_ij v_j, then this head's columns of W_O. Every vector says
which tensor and which of its rows it comes from; `terms` has the products that a single number is the sum of.

Dims: D width, K head width, M keys.

A single number of the arithmetic as a sum: the products it is made of, largest first, and the matrix row they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.attention import Attention
from regard.model.embedding import Embed
from regard.model.mixers.convolution import Convolution
from regard.model.probe import Seen, attentions, probe
from regard.model.vision import ImageEncoder
from regard.studio.passes import ModelPass


@dataclass(frozen=True)
class Place:
    """One weight: attention, head, query and key."""

    name: str
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class Traced:
    """A pass in which one attention was watched: what went in, and what came out."""

    attention: Attention
    path: str  # of the module, as its weights are called in a checkpoint
    asked_LD: Tensor  # what queries are made of
    shown_MD: Tensor  # what keys and values are made of
    context_LD: Tensor
    out_LD: Tensor


@contextmanager
def _watched(attention: Attention) -> Iterator[dict[str, Tensor]]:
    found: dict[str, Tensor] = {}

    def into(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda _, given: found.update({name: given[0][0]})

    def made(_: nn.Module, given: tuple[Any, ...], result: Tensor) -> None:
        found.update(context=given[0][0], out=result[0])

    handles = [attention.project.register_forward_pre_hook(into("shown")), attention.out.register_forward_hook(made)]
    if attention.query is not None:
        handles.append(attention.query.register_forward_pre_hook(into("asked")))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def trace(model_pass: ModelPass, name: str, alone: Lock) -> Traced:
    model = model_pass.subject.model
    found = attentions(model)
    attention = found[name]
    if isinstance(attention, Convolution):
        raise UserError(f"{name} does not attend, so there are no queries and keys to multiply; give another.")
    if not isinstance(attention, Attention):
        raise UserError(f"{name} has no matrices that make queries, keys and values: it scores what was read as it is. See Head.")
    path = next(path for path, module in model.named_modules() if module is attention)
    with alone, probe(model), _watched(attention) as seen:
        model_pass.subject.forward(1)
    asked = seen.get("asked", seen["shown"])
    return Traced(attention, path, *(part.float() for part in (asked, seen["shown"], seen["context"], seen["out"])))


@torch.no_grad()
def arithmetic(model_pass: ModelPass, place: Place, traced: Traced) -> dict[str, Any]:
    check(model_pass, place)
    seen = model_pass.attention(place.name)
    q_K = seen.q_BHLK[0, place.head, place.query].float()
    k_MK, v_MK = seen.k_BHMK[0, place.head].float(), seen.v_BHMK[0, place.head].float()
    sees_M = seen.view.rows(torch.tensor([place.query])).expand(1, -1, -1, -1)[0, -1, 0].expand(len(k_MK))
    scale = len(q_K) ** 0.5
    scores_M = k_MK @ q_K / scale
    weights_M = seen.weights([place.head], [place.query])[0, 0, 0]
    softmax_M = scores_M.masked_fill(sees_M == 0, -torch.inf).softmax(-1)
    if not torch.allclose(softmax_M.nan_to_num(), weights_M, atol=1e-3):
        raise UserError("these sums are those of scaled dot-product attention, and this model mixes otherwise (model.mixer).")
    context_K = weights_M @ v_MK
    columns = slice(place.head * len(q_K), (place.head + 1) * len(q_K))
    share_D = traced.attention.out.weight[:, columns].float() @ context_K
    queries, keys = model_pass.subject.around(place.name)
    return {
        "query": {"token": queries.tokens[place.query], "row": place.query, **_vector_of(model_pass, place, "query")},
        "key": {"token": keys.tokens[place.key], "row": place.key, **_vector_of(model_pass, place, "key")},
        "x_query": traced.asked_LD[place.query].tolist(),
        "x_key": traced.shown_MD[place.key].tolist(),
        "q": q_K.tolist(),
        "k": k_MK[place.key].tolist(),
        "products": (q_K * k_MK[place.key]).tolist(),
        "dot": float(q_K @ k_MK[place.key]),
        "scale": scale,
        "sees": sees_M.tolist(),
        "scores": scores_M.tolist(),
        "weights": weights_M.tolist(),
        "keys": list(keys.tokens),
        "v": v_MK[place.key].tolist(),
        "context": context_K.tolist(),
        "share": share_D.tolist(),
        "out": traced.out_LD[place.query].tolist(),
        "difference": float((context_K - traced.context_LD[place.query, columns]).abs().max()),
        "sources": sources(traced, place, len(q_K)),
    }


def sources(traced: Traced, place: Place, wide: int) -> dict[str, Any]:
    """Return where a number of each vector comes from: the tensor, and the row that gives its first number."""
    path, cross = traced.path, traced.attention.query is not None
    total = traced.attention.out.weight.shape[1]
    begin, first = place.head * wide, 0 if cross else total
    return {
        "q": {"tensor": f"{path}.query.weight" if cross else f"{path}.project.weight", "first": begin},
        "k": {"tensor": f"{path}.project.weight", "first": first + begin},
        "v": {"tensor": f"{path}.project.weight", "first": first + total + begin},
        "share": {"tensor": f"{path}.out.weight", "first": 0, "columns": [begin, begin + wide]},
    }


@torch.no_grad()
def _vector_of(model_pass: ModelPass, place: Place, side: str) -> dict[str, Any]:
    """The token's embedding and its position's vector; a cell of an image has none, but what its pixels were made to."""
    stack = "encoder" if side == "key" and place.name.endswith(".cross") else place.name.partition(".")[0]
    tokens, row = model_pass.subject.sides[stack], place.query if side == "query" else place.key
    if stack == "encoder" and isinstance(getattr(model_pass.subject.model, "encoder", None), ImageEncoder):
        return {"id": None, "stack": stack, "embedding": None, "position": None}
    embed, path = _embed(model_pass.subject.model, stack)
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
    heads, queries, keys = model_pass.attention(place.name).q_BHLK.shape[1:3] + model_pass.attention(place.name).k_BHMK.shape[2:3]
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
def terms(model_pass: ModelPass, place: Place, traced: Traced, vector: str, index: int) -> dict[str, Any]:
    """Number `index` of a vector as the products it is the sum of: the largest, and the sum of the rest."""
    check(model_pass, place)
    wide, seen = model_pass.attention(place.name).q_BHLK.shape[-1], model_pass.attention(place.name)
    sizes = {
        "q": wide,
        "k": wide,
        "v": wide,
        "dot": 1,
        "context": wide,
        "share": traced.out_LD.shape[1],
        "out": traced.out_LD.shape[1],
    }
    if vector not in sizes:
        raise UserError(f"there is no vector {vector[:20]!r}; ask for one of {', '.join(sizes)}.")
    if not 0 <= index < sizes[vector]:
        raise UserError(f"{vector} has no number {index}; it has {sizes[vector]}, numbered from 0.")
    found = (
        _projected(traced, place, vector, index, wide)
        if vector in "qkv"
        else _mixed(model_pass, seen, traced, place, vector, index)
    )
    products = found.a * found.b
    order = products.abs().argsort(descending=True)[:TERMS].tolist()
    shown = [{"of": found.names[n], "a": float(found.a[n]), "b": float(found.b[n]), "product": float(products[n])} for n in order]
    total = float(products.sum())
    rest = total - sum(term["product"] for term in shown)
    return {
        "source": found.source,
        "terms": shown,
        "of": len(products),
        "rest": rest,
        "bias": found.bias,
        "sum": total + found.bias,
    }


def _projected(traced: Traced, place: Place, vector: str, index: int, wide: int) -> Sum:
    """q, k and v: a row of a matrix times the vector that goes in."""
    source, attention = sources(traced, place, wide)[vector], traced.attention
    module = attention.query if vector == "q" and attention.query is not None else attention.project
    x_D = traced.asked_LD[place.query] if vector == "q" else traced.shown_MD[place.key]
    row = source["first"] + index
    bias = 0.0 if module.bias is None else float(module.bias[row])
    names = [f"x[{n}]" for n in range(len(x_D))]
    return Sum(names, module.weight[row].float(), x_D, f"{source['tensor']}, row {row}", bias)


def _mixed(model_pass: ModelPass, seen: Seen, traced: Traced, place: Place, vector: str, index: int) -> Sum:
    """Return the terms of what follows: q . k, the mixed values, and the output projection, of this head or of all."""
    wide, out = seen.q_BHLK.shape[-1], traced.attention.out
    columns = slice(place.head * wide, (place.head + 1) * wide)
    context_I = traced.context_LD[place.query]
    if vector == "dot":
        q_K, k_K = seen.q_BHLK[0, place.head, place.query].float(), seen.k_BHMK[0, place.head, place.key].float()
        return Sum([f"q[{n}] k[{n}]" for n in range(wide)], q_K, k_K, "q . k")
    if vector == "context":
        weights_M = seen.weights([place.head], [place.query])[0, 0, 0]
        keys = model_pass.subject.around(place.name)[1].tokens
        return Sum(list(keys), weights_M, seen.v_BHMK[0, place.head, :, index].float(), f"weights x column {index} of v")
    if vector == "share":
        names = [f"context[{n}]" for n in range(wide)]
        source = f"{traced.path}.out.weight, row {index}, columns {columns.start} to {columns.stop - 1}"
        return Sum(names, out.weight[index, columns].float(), context_I[columns], source)
    parts_H = (out.weight[index].float() * context_I).unflatten(0, (-1, wide)).sum(-1)
    names = [f"head {head}" for head in range(len(parts_H))]
    bias = 0.0 if out.bias is None else float(out.bias[index])
    return Sum(names, parts_H, torch.ones_like(parts_H), f"all heads through {traced.path}.out.weight, row {index}", bias)
