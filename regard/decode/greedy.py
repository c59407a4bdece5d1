"""Greedy search: always the most probable next token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.graph import Sessions
from regard.decode.hypothesis import Hypothesis, hypothesis, row_limits
from regard.decode.loop import find
from regard.decode.offers import Offers
from regard.decode.progress import Progress
from regard.decode.rules import Rules
from regard.model.state import Moves, Reading


@torch.no_grad()
def greedy(
    reading: Reading,
    rows: int,
    *,
    sos: int | Tensor,
    eos: int,
    maximum: Tensor | Sequence[int],
    minimum: int = 0,
    banned: Sequence[int] = (),
    sessions: Sessions | None = None,
) -> list[Hypothesis]:
    """One hypothesis per row of what was read, the one a beam of one finds; nothing is ranked, so its score is its logprob.

    `sos` is the first token, of all rows or of each; `maximum` limits each row's tokens, eos counted; a row ends after `minimum`
    tokens or more; `banned` tokens never come out. Of equally probable tokens, the lower id is taken. With `sessions`, which
    belong to the model, steps are recorded and replayed.
    """
    rules = Rules(eos=eos, banned=tuple(banned), minimum=minimum)
    return [found[0] for found in find(Greedy, rules, reading, sos, row_limits(maximum, rows), sessions)]


class Board(NamedTuple):
    """Where each sentence stands."""

    newest_S1: Tensor
    tokens_ST: Tensor
    logprobs_ST: Tensor

    def first(self, sentences: int) -> Board:
        return Board(*(part[:sentences] for part in self))


class Greedy:
    def __init__(self, rules: Rules, reading: Reading, sentences: int, tokens: int, fixed: bool) -> None:
        self.rules = rules
        self.state = reading.room(sentences, 1, tokens, fixed=fixed)
        self.progress = Progress(sentences, reading.device)
        self.offers = Offers(rules, reading.device, fixed=fixed)
        tokens_ST = torch.zeros(sentences, tokens, dtype=torch.long, device=reading.device)
        self.room = self.board = Board(tokens_ST.new_zeros(sentences, 1), tokens_ST, tokens_ST.float())

    def begin(self, reading: Reading, first_S: Tensor, limits: Sequence[int]) -> None:
        self.state.take(reading, limits)
        self.progress.begin(limits)
        self.board = self.room
        self.board.newest_S1[: len(limits)] = first_S[:, None]

    def advance(self) -> None:
        board, progress = self.board, self.progress
        logits_SV = self.state.step(board.newest_S1)[:, 0]
        logprob_S1, token_S1, broken_S = self.offers.best(logits_SV, 1, progress.step_1)
        board.tokens_ST.index_copy_(1, progress.step_1, token_S1)
        board.logprobs_ST.index_copy_(1, progress.step_1, logprob_S1)
        board.newest_S1.copy_(token_S1)
        progress.advance(((token_S1 == self.rules.eos) | logprob_S1.isneginf())[:, 0], broken_S)

    def keep(self, moves: Moves) -> None:
        for part_S in self.board:
            moves.within(part_S)
        self.board = self.room.first(moves.stay)
        self.state.keep(moves)
        self.progress.keep(moves)

    def hypotheses(self, rows_R: Tensor) -> list[list[Hypothesis]]:
        parts = (self.board.tokens_ST, self.board.logprobs_ST, self.progress.length_S)
        return [[self._hypothesis(*sentence)] for sentence in zip(*(part[rows_R].tolist() for part in parts))]

    def _hypothesis(self, tokens: list[int], logprobs: list[float], length: int) -> Hypothesis:
        if logprobs[length - 1] == -torch.inf:  # nothing could follow: the last token is no choice of the model
            length -= 1
        finished = tokens[:length][-1:] == [self.rules.eos]
        return hypothesis(tokens[:length], logprobs[:length], finished=finished, alpha=0.0)
