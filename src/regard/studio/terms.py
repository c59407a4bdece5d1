"""A single number of the arithmetic as a sum: the products it is made of, largest first, and the matrix row they come from."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import UserError
from regard.model.probe import Seen
from regard.studio.arithmetic import Place, Traced, check, sources
from regard.studio.looks import Look

TERMS = 12  # that are told one by one


class Sum(NamedTuple):
    """A number as the sum of products a x b, each called by a name, and a bias."""

    names: list[str]
    a: Tensor
    b: Tensor
    source: str
    bias: float = 0.0


@torch.no_grad()
def terms(look: Look, place: Place, traced: Traced, vector: str, index: int) -> dict[str, Any]:
    """Number `index` of a vector as the products it is the sum of: the largest, and the sum of the rest."""
    check(look, place)
    wide, seen = look.attention(place.name).q_BHLK.shape[-1], look.attention(place.name)
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
        _projected(traced, place, vector, index, wide) if vector in "qkv" else _mixed(look, seen, traced, place, vector, index)
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


def _mixed(look: Look, seen: Seen, traced: Traced, place: Place, vector: str, index: int) -> Sum:
    """What comes after: q . k, the mixed values, and the output projection, of this head or of all."""
    wide, out = seen.q_BHLK.shape[-1], traced.attention.out
    columns = slice(place.head * wide, (place.head + 1) * wide)
    context_I = traced.context_LD[place.query]
    if vector == "dot":
        q_K, k_K = seen.q_BHLK[0, place.head, place.query].float(), seen.k_BHMK[0, place.head, place.key].float()
        return Sum([f"q[{n}] k[{n}]" for n in range(wide)], q_K, k_K, "q . k")
    if vector == "context":
        weights_M = seen.weights([place.head], [place.query])[0, 0, 0]
        keys = look.subject.around(place.name)[1].tokens
        return Sum(list(keys), weights_M, seen.v_BHMK[0, place.head, :, index].float(), f"weights x column {index} of v")
    if vector == "share":
        names = [f"context[{n}]" for n in range(wide)]
        source = f"{traced.path}.out.weight, row {index}, columns {columns.start} to {columns.stop - 1}"
        return Sum(names, out.weight[index, columns].float(), context_I[columns], source)
    parts_H = (out.weight[index].float() * context_I).unflatten(0, (-1, wide)).sum(-1)
    names = [f"head {head}" for head in range(len(parts_H))]
    bias = 0.0 if out.bias is None else float(out.bias[index])
    return Sum(names, parts_H, torch.ones_like(parts_H), f"all heads through {traced.path}.out.weight, row {index}", bias)
