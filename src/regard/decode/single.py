"""One text a sentence, written token by token: greedy search takes the most probable one, sampling draws.

Dims: S sentences, T tokens to come, N of prompt and text together, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.candidates import Candidates
from regard.decode.hypothesis import Hypothesis, hypothesis
from regard.decode.progress import Progress
from regard.decode.prompts import NONE, Prompts
from regard.decode.rules import Room, Rules
from regard.decode.sampling import draw, penalised, uniform, weights
from regard.decode.sampling_config import MOST_PROBABLE
from regard.model.kernels.decode_step import HAS_TRITON
from regard.model.state.protocol import EncodedInput, RowCompaction

if HAS_TRITON:
    from regard.model.kernels.argmax import Picked, pick


class Board(NamedTuple):
    """Where each sentence stands."""

    newest_S1: Tensor
    text_SN: Tensor  # what is remembered of its prompt, and then what it writes; NONE where nothing is yet
    logprobs_ST: Tensor
    draws_ST: Tensor  # of no width where nothing is drawn
    forced_ST: Tensor  # of no width where nothing is forced

    @classmethod
    def room(cls, room: Room, device: torch.device, drawn: bool) -> Board:
        def part(width: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(room.sentences, width, dtype=dtype, device=device)

        return cls(
            newest_S1=part(1),
            text_SN=part(room.prompt + room.tokens),
            logprobs_ST=part(room.tokens, torch.float32),
            draws_ST=part(room.tokens if drawn else 0, torch.float64),
            forced_ST=part(room.tokens if room.forced else 0),
        )

    def first(self, sentences: int) -> Board:
        return Board(*(part[:sentences] for part in self))


class Single:
    def __init__(self, rules: Rules, reading: EncodedInput, room: Room) -> None:
        self.rules, self.prompt, device = rules, room.prompt, reading.device
        self.state = reading.room(room.sentences, 1, room.tokens, fixed=room.fixed)
        self.progress = Progress(room.sentences, device)
        self.offers = Candidates(rules, device, fixed=room.fixed)
        self.room = self.board = Board.room(room, device, rules.choice.temperature > 0)
        plain = rules.choice == MOST_PROBABLE and not (rules.banned_sequences or room.forced)
        self.picks = plain and room.fixed and HAS_TRITON and device.type == "cuda"  # one kernel that looks at the logits once
        self.banned_V: Tensor | None = None
        self.latest_N = torch.arange(room.prompt - rules.look_back, room.prompt, device=device)  # at the first step

    def begin(self, reading: EncodedInput, openings: Prompts) -> None:
        board, limits = self.room, openings.limits
        openings.take(self.state, reading, len(board.newest_S1))
        self.progress.begin(limits)
        self.board = board
        board.newest_S1[: len(limits)] = openings.first_S[:, None]
        board.text_SN.fill_(NONE)
        openings.write_prompts(board.text_SN[:, : self.prompt])
        openings.write_forced(board.forced_ST)
        if steps := board.draws_ST.shape[1]:
            seed_S = torch.tensor(openings.seeds, dtype=torch.long, device=reading.device)
            board.draws_ST[: len(limits)] = uniform(seed_S[:, None], torch.arange(steps, device=reading.device))

    def advance(self) -> None:
        board, progress = self.board, self.progress
        step_1 = progress.step_1
        tail_SN = board.text_SN.index_select(1, self.latest_N + step_1) if self.rules.banned_sequences else None
        forced_S1 = board.forced_ST.index_select(1, step_1) if board.forced_ST.shape[1] else None
        logits_SV = self.state.step(board.newest_S1)[:, 0]
        if self.picks:
            logprob_S1, token_S1, broken_S = self._pick(logits_SV, step_1)
        else:
            allowed = self.offers.allowed(logits_SV, step_1, tail_SN, forced_S1)
            token_S1, broken_S = self._choose(logits_SV, allowed.logprob_BV), allowed.broken_B
            logprob_S1 = allowed.of(token_S1)
        board.text_SN[:, self.prompt :].index_copy_(1, step_1, token_S1)
        board.logprobs_ST.index_copy_(1, step_1, logprob_S1)
        board.newest_S1.copy_(token_S1)
        progress.advance(((token_S1 == self.rules.eos) | logprob_S1.isneginf())[:, 0], broken_S)

    def _pick(self, logits_SV: Tensor, step_1: Tensor) -> Picked:
        rules = self.rules
        if rules.banned and self.banned_V is None:  # in the first step, which is not recorded
            self.banned_V = torch.zeros(logits_SV.shape[1], dtype=torch.bool, device=logits_SV.device)
            self.banned_V[torch.tensor(rules.banned, device=logits_SV.device)] = True
        return pick(logits_SV, self.banned_V, rules.eos, rules.minimum, step_1)

    def _choose(self, logits_SV: Tensor, logprob_SV: Tensor) -> Tensor:
        """token_S1. Everything but the penalty would choose alike from logits and from log-probabilities."""
        board, choice, scores_SV = self.board, self.rules.choice, logprob_SV
        if choice.repetition_penalty != 1:
            text_SN = torch.where(board.text_SN < 0, board.newest_S1, board.text_SN)
            scores_SV = penalised(logits_SV.float(), text_SN, choice.repetition_penalty)
            scores_SV.masked_fill_(logprob_SV.isneginf(), -torch.inf)
        if choice.temperature == 0:
            return scores_SV.argmax(1, keepdim=True)  # which promises the first
        return draw(weights(scores_SV, choice, fixed=self.offers.fixed), board.draws_ST.index_select(1, self.progress.step_1))

    def keep(self, moves: RowCompaction) -> None:
        for part_S in self.board:
            moves.within(part_S)
        self.board = self.room.first(moves.stay)
        self.state.keep(moves)
        self.progress.keep(moves)

    def written(self, rows_R: Tensor, since: int) -> list[list[int]]:
        return [tokens[: len(tokens) - finished] for tokens, _, finished in self._read(rows_R, since)]

    def hypotheses(self, rows_R: Tensor) -> list[list[Hypothesis]]:
        read = self._read(rows_R, 0)
        return [[hypothesis(tokens, logprobs, finished=finished, alpha=0.0)] for tokens, logprobs, finished in read]

    def _read(self, rows_R: Tensor, since: int) -> list[tuple[list[int], list[float], bool]]:
        """Tokens from this step on, the end token among them, their log-probabilities, and whether they have come to an end."""
        lengths = (self.progress.length_S[rows_R] - since).tolist()
        steps = slice(since, since + max(lengths))
        parts = (self.board.text_SN[:, self.prompt :], self.board.logprobs_ST)
        read = []
        for tokens, logprobs, length in zip(*(part[rows_R, steps].tolist() for part in parts), lengths):
            if length and logprobs[length - 1] == -torch.inf:  # nothing could follow: the last token is no choice of the model
                length -= 1
            read.append((tokens[:length], logprobs[:length], tokens[:length][-1:] == [self.rules.eos]))
        return read
