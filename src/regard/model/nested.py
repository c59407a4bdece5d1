"""Texts within texts: a row of tokens is cut at its marks into sentences, or turns, which are read side by side.

A document travels as any text does, as one row of tokens, with a mark between its sentences: EOS, or of a dialogue the piece that
ends a turn. Here it is taken apart: sentences of all rows become rows of their own, and what becomes of them comes together again
by document. Marks are not read, and of nothing between two of them nothing is made. Where a row is all marks, its first is read,
for a document has at least one sentence and a sentence at least one word.

Dims: B documents, L tokens of a row, S sentences of all documents, M words of a sentence, N sentences of a document, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.text.vocabulary import EOS


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
        """The host waits for how many sentences there are, and how long."""
        number_L = torch.arange(ids_BL.shape[1], device=ids_BL.device)
        word_BL = (number_L < lengths_B[:, None]) & (ids_BL != mark) & (ids_BL != EOS)
        word_BL = word_BL | ((number_L == 0) & ~word_BL.any(1, keepdim=True))
        first_BL = word_BL & ~torch.cat([torch.zeros_like(word_BL[:, :1]), word_BL[:, :-1]], 1)
        begun_BL = torch.where(first_BL, number_L, 0).cummax(1).values
        sentence_BL = (first_BL.flatten().cumsum(0) - 1).view_as(ids_BL).clamp(min=0)
        words_S = torch.bincount(sentence_BL[word_BL])
        return cls(word_BL, sentence_BL, number_L - begun_BL, words_S, first_BL.sum(1), words_S.tolist())

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
        number_N = torch.arange(int(self.sentences_B.max()), device=x_SD.device)
        start_B = self.sentences_B.cumsum(0) - self.sentences_B
        there_BN = number_N < self.sentences_B[:, None]
        return x_SD[(start_B[:, None] + number_N).clamp(max=len(x_SD) - 1)] * there_BN[..., None]

    def from_the_last(self) -> Tensor:
        """turn_BL: of each word, how many turns came after its own; -1 where there is no word."""
        last_B1 = (self.sentences_B.cumsum(0) - 1)[:, None]
        return torch.where(self.word_BL, last_B1 - self.sentence_BL, -1)
