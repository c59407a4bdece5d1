"""The two ends of a recurrent encoder-decoder, where words go in and come out: the same whatever it reads and looks back at.

A decoder begins with tanh(V v) of one vector v that was made of all that was read. Tokens have a vector each and no places, since
order is what a recurrence knows by itself.

Dims: B batch, D width, N layers, P parts of what a cell carries, C = N P D.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from regard.data.packing import Packing, Words
from regard.model.count import Part, embedding, linear, vocabulary_head
from regard.model.embed import Embed
from regard.model.linear import Linear
from regard.model.recurrence.recurrent import GATES, PARTS, CellKind


class Ends(Protocol):
    """What settings say of them."""

    @property
    def cell(self) -> CellKind: ...
    @property
    def width(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def dropout(self) -> float: ...
    @property
    def tie(self) -> str: ...


def embeddings(config: Ends, source_vocabulary: int, target_vocabulary: int) -> tuple[Embed, Embed]:
    source, target = (
        Embed(vocabulary, config.width, position="none", maximum_length=1, dropout=config.dropout)
        for vocabulary in (source_vocabulary, target_vocabulary)
    )
    if config.tie == "all":
        target.tokens = source.tokens
    return source, target


def side_by_side(lengths_B: Words, target: Packing | None) -> Tensor:
    """The lengths of sources that are padded, as their targets are."""
    if not isinstance(lengths_B, Tensor) or target is not None:
        raise TypeError("a recurrent network reads sequences side by side, so they are padded for it, not packed end to end")
    return lengths_B


def beginning(begin: Linear, of_BD: Tensor, layers: int) -> Tensor:
    """begin_NPBD: what the cells of every layer carry before the first word."""
    begin_BC = begin(of_BD).tanh()
    if torch.is_autocast_enabled(begin_BC.device.type):
        begin_BC = begin_BC.float()  # sums over all words are never rounded to half precision
    return begin_BC.unflatten(1, (layers, -1, of_BD.shape[-1])).permute(1, 2, 0, 3)


def cells(name: str, cell: CellKind, inputs: int, width: int, tokens: int, ways: int = 1) -> Part:
    """Cells of one layer over so many words, in one way of reading or both."""
    gates = GATES[cell] * width
    parameters, flops = gates * (inputs + width + 2), 2 * tokens * gates * (inputs + width)
    return Part(name, f"I={inputs} -> D={width}", "model/recurrence/recurrent.py", ways * parameters, ways * flops)


def tree(
    family: str, config: Ends, source_vocabulary: int, target_vocabulary: int, target: int, encoder: Part, decoder: Part
) -> Part:
    """A model of this family, with an encoder and a decoder between its ends, and so many words to write."""
    c, file = config, f"families/{family}.py"
    begin = c.layers * PARTS[c.cell] * c.width
    parts = (
        embedding("source embedding", source_vocabulary, c.width),
        embedding("target embedding", target_vocabulary, c.width, tied=c.tie == "all"),
        encoder,
        Part("begin", f"D={c.width} -> {begin}", file, linear(c.width, begin), 2 * c.width * begin),
        decoder,
        vocabulary_head(c.width, target_vocabulary, target, tied=c.tie != "none"),
    )
    return Part(family, f"B,M and B,L -> B,L,V={target_vocabulary:,}", file, children=parts)
