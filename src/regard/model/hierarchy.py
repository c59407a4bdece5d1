"""Texts within texts: a row of tokens is cut at its separators into sentences or turns, which are encoded side by side.

A document is one row of tokens with a separator between its sentences: EOS, or the piece that ends a turn of a dialogue. `Nested`
makes every sentence a row of its own and puts the results back by document. Separators are not encoded; a row of separators only
keeps its first token, since a document has at least one sentence and a sentence at least one word. `Level` encodes the words of
each sentence, or the sentences of each document, with recurrent cells in both directions or with Transformer blocks. Cells wait
for the longest sentence, so sentences of similar length go together.

Dims: B documents, L tokens of a row, S sentences of all documents, M words of a sentence, N sentences of a document, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.block import BlockConfig, Stack
from regard.model.embedding import InputPositions
from regard.model.recurrent.cells import RecurrentEncoder
from regard.model.visibility import padding
from regard.text.specials import EOS

Encoder = Literal["gru", "lstm", "transformer"]
HEADS, WIDER = 4, 4  # defaults for 0 in a recipe: heads, and feed-forward width as a multiple of the width
TYPICAL_SENTENCE = 20  # words, where operations are counted
SHORT = 16  # words: sentences up to this length go together


class Level(nn.Module):
    def __init__(self, encoder: Encoder, blocks: BlockConfig, layers: int, name: str) -> None:
        super().__init__()
        width, dropout = blocks.width, blocks.dropout
        self.encoder: RecurrentEncoder | Stack
        self.positions: InputPositions | None = None
        if encoder == "transformer":
            self.positions, self.encoder = InputPositions("sinusoidal", width, 1), Stack(blocks, layers, name)
        else:
            self.encoder = RecurrentEncoder(encoder, width, layers, bidirectional=True, dropout=dropout)

    def forward(self, x_SMD: Tensor, lengths_S: Tensor, lengths: Sequence[int] = ()) -> Tensor:
        """h_SMD; `lengths` are lengths_S, if the host knows them."""
        rows, length, _ = x_SMD.shape
        if isinstance(self.encoder, Stack):
            assert self.positions is not None
            where_MD = self.positions.embed(torch.arange(length, device=x_SMD.device))
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
    inner = feedforward or WIDER * max(1, width)
    return BlockConfig(width=width, heads=heads, feedforward=inner, dropout=dropout, norm_placement="pre")


@dataclass(frozen=True, eq=False)
class Nested:
    word_BL: Tensor  # is a token a word, and no mark and no padding?
    sentence_BL: Tensor  # the number of each word's sentence among all, from 0
    place_BL: Tensor  # its place in it
    words_S: Tensor
    sentences_B: Tensor
    lengths: list[int]  # words_S, where the host can see them

    @classmethod
    def of(cls, ids_BL: Tensor, lengths_B: Tensor, mark: int = EOS) -> Nested:
        """The host waits for how many sentences there are, and how long; on the meta device they have a typical length."""
        if ids_BL.is_meta:
            return Shapes.typical(ids_BL, TYPICAL_SENTENCE if mark == EOS else ids_BL.shape[1])
        number_L = torch.arange(ids_BL.shape[1], device=ids_BL.device)
        word_BL = (number_L < lengths_B[:, None]) & (ids_BL != mark) & (ids_BL != EOS)
        word_BL = word_BL | ((number_L == 0) & ~word_BL.any(1, keepdim=True))
        first_BL = word_BL & ~torch.cat([torch.zeros_like(word_BL[:, :1]), word_BL[:, :-1]], 1)
        begun_BL = torch.where(first_BL, number_L, 0).cummax(1).values
        sentence_BL = (first_BL.flatten().cumsum(0) - 1).view_as(ids_BL).clamp(min=0)
        words_S = torch.bincount(sentence_BL[word_BL])
        return cls(word_BL, sentence_BL, number_L - begun_BL, words_S, first_BL.sum(1), words_S.tolist())

    @property
    def most(self) -> int:
        """The sentences of the document that has most of them."""
        return int(self.sentences_B.max())

    def apart(self, x_BLD: Tensor) -> Tensor:
        """x_SMD: every sentence a row, zeros behind it."""
        x_SMD = x_BLD.new_zeros(len(self.lengths), max(self.lengths), x_BLD.shape[2])
        return x_SMD.index_put((self.sentence_BL[self.word_BL], self.place_BL[self.word_BL]), x_BLD[self.word_BL])

    def together(self, x_SMD: Tensor) -> Tensor:
        """x_BLD: every word where it came from, zeros where there is none."""
        x_BLD = x_SMD[self.sentence_BL, self.place_BL.clamp(max=x_SMD.shape[1] - 1)]
        return x_BLD * self.word_BL[..., None]

    def documents(self, x_SD: Tensor) -> Tensor:
        """x_BND: the sentences of every document a row, zeros behind them."""
        number_N = torch.arange(self.most, device=x_SD.device)
        start_B = self.sentences_B.cumsum(0) - self.sentences_B
        there_BN = number_N < self.sentences_B[:, None]
        return x_SD[(start_B[:, None] + number_N).clamp(max=len(x_SD) - 1)] * there_BN[..., None]

    def from_the_last(self) -> Tensor:
        """turn_BL: of each word, how many turns came after its own; -1 where there is no word."""
        last_B1 = (self.sentences_B.cumsum(0) - 1)[:, None]
        return torch.where(self.word_BL, last_B1 - self.sentence_BL, -1)


class Shapes(Nested):
    """Rows of the meta device, which have shapes and no tokens: all are cut into sentences of one length."""

    @classmethod
    def typical(cls, ids_BL: Tensor, words: int) -> Shapes:
        batch, length = ids_BL.shape
        number = max(1, round(length / words))
        place_BL, sentences_B = torch.empty_like(ids_BL), ids_BL.new_empty(batch)
        lengths = [min(length, words)] * (batch * number)
        return cls(place_BL.bool(), place_BL, place_BL, ids_BL.new_empty(len(lengths)), sentences_B, lengths)

    @property
    def most(self) -> int:
        return len(self.lengths) // len(self.sentences_B)

    def apart(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.new_empty(len(self.lengths), self.lengths[0], x_BLD.shape[2])
