"""One level of a hierarchy: what reads the words of each sentence, or the sentences of each document, each in its own context.

Cells that read both ways, or blocks of a Transformer in their place. Cells wait for every word of the longest sentence, so
sentences of like length go together; blocks do not wait.

Dims: S rows (sentences), M vectors of a row (words), D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.model.block import BlockConfig
from regard.model.count import Part, stack
from regard.model.position import Positions
from regard.model.recurrence.recurrent import GATES, RecurrentEncoder
from regard.model.stack import Stack
from regard.model.visibility import padding

Encoder = Literal["gru", "lstm", "transformer"]
HEADS, WIDER = 4, 4  # where a recipe says 0: so many heads, and a feed-forward layer so many times as wide
SHORT = 16  # words: sentences up to this length go together


class Level(nn.Module):
    def __init__(self, encoder: Encoder, blocks: BlockConfig, layers: int, name: str) -> None:
        super().__init__()
        width, dropout = blocks.width, blocks.dropout
        self.encoder: RecurrentEncoder | Stack
        self.positions: Positions | None = None
        if encoder == "transformer":
            self.positions, self.encoder = Positions("sinusoidal", width, 1), Stack(blocks, layers, name)
        else:
            self.encoder = RecurrentEncoder(encoder, width, layers, bidirectional=True, dropout=dropout)

    def forward(self, x_SMD: Tensor, lengths_S: Tensor, lengths: Sequence[int] = ()) -> Tensor:
        """h_SMD; `lengths` are lengths_S, if the host knows them."""
        rows, length, _ = x_SMD.shape
        if isinstance(self.encoder, Stack):
            assert self.positions is not None
            where_MD = self.positions(torch.arange(length, device=x_SMD.device))
            view = padding(lengths_S).over(length, length, batch=rows, device=x_SMD.device)
            return self.encoder(x_SMD if where_MD is None else x_SMD + where_MD.to(x_SMD.dtype), view)
        groups = list(alike(lengths))
        if len(groups) < 2:
            return self.encoder(x_SMD, lengths_S)[0]
        h_SMD = torch.zeros_like(x_SMD)
        for numbers, longest in groups:
            rows_R = torch.tensor(numbers, device=x_SMD.device)
            found_RMD, _ = self.encoder(x_SMD[rows_R, :longest], lengths_S[rows_R])
            h_SMD = h_SMD.index_put((rows_R[:, None], torch.arange(longest, device=x_SMD.device)), found_RMD.to(h_SMD.dtype))
        return h_SMD


def alike(lengths: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Rows whose lengths are within a factor of two of each other, and the longest of these lengths."""
    groups: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        groups.setdefault(max(SHORT, 1 << (length - 1).bit_length()), []).append(row)
    for _, rows in sorted(groups.items()):
        yield rows, max(lengths[row] for row in rows)


def blocks_of(encoder: Encoder, width: int, heads: int, feedforward: int, dropout: float) -> BlockConfig:
    """Settings of the blocks, once they are known to make sense; without blocks, these are for nothing."""
    if encoder != "transformer" and (heads or feedforward):
        key, value = ("heads", heads) if heads else ("feedforward", feedforward)
        raise UserError(f"model.{key}={value} is for model.encoder=transformer; with {encoder} it does nothing: leave it out.")
    if encoder != "transformer" and width % 2:
        raise UserError(f"model.width={width} cannot be halved between two ways of reading; give an even number.")
    heads = heads or (HEADS if encoder == "transformer" else 1)
    return BlockConfig(width=width, heads=heads, feedforward=feedforward or WIDER * max(1, width), dropout=dropout, norm="pre")


def check_levels(encoder: Encoder, width: int, layers: int, heads: int, feedforward: int, dropout: float) -> None:
    for key, value in (("width", width), ("layers", layers)):
        if value < 1:
            raise UserError(f"model.{key}={value} must be at least 1.")
    blocks_of(encoder, width, heads, feedforward, dropout)


def count_level(name: str, encoder: Encoder, blocks: BlockConfig, layers: int, tokens: int) -> Part:
    """Over so many tokens, all told to read each other."""
    if encoder == "transformer":
        return stack(name, blocks, layers, tokens)
    width = blocks.width
    gates = GATES[encoder] * width  # of both ways, each half as wide
    parameters, flops = layers * gates * (width + width // 2 + 2), 2 * tokens * layers * gates * (width + width // 2)
    return Part(name, f"{layers} x {encoder}, 2 ways, D={width}", "model/recurrence/recurrent.py", parameters, flops)
