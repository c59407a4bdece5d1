"""Beam search: keep the most probable hypotheses alive, and stop only when none of them can still win.

Wu et al. 2016 (GNMT), section 7, and Vaswani et al. 2017, section 6.1. At each step a sentence ranks its 2 x beam best
continuations. Those among the first `beam` that end are finished and compete by length-normalised score; the search
goes on with the `beam` best that do not end. A sentence is done when

- no live hypothesis can reach the worst of its n_best finished ones, even if all its further tokens were certain and as
  many as allowed (the divisor grows with length, so that is the best case), or
- its `beam` best continuations all end: nothing that earned a place is left alive. With a beam of one this is greedy
  search; with a beam wider than the number of all outputs it never drops one, and the search is exhaustive, or
- it reaches its maximum. What is alive then counts as unfinished, after all that finished.

Differs from the papers in: no coverage penalty, no pruning by relative score.

The paths of a beam search as a tree that only grows: nothing of a hypothesis is copied while it lives.

Each step ranks C candidates of a sentence, and each is a node: its token, how probable that was, and which candidate of the step
before it continues. Lanes and finished hypotheses are just nodes; their texts are read off when a sentence leaves.

Dims: S sentences, W lanes, K offered to each, C candidates a step, T steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.candidates import Candidates
from regard.decode.config import check_beam
from regard.decode.cuda_graphs import CapturedGraphs
from regard.decode.hypothesis import Hypothesis, hypothesis, length_divisor
from regard.decode.loop import find
from regard.decode.progress import Progress
from regard.decode.prompts import Prompts, openings
from regard.decode.rules import Room, Rules
from regard.model.state.protocol import EncodedInput, RowCompaction


@torch.no_grad()
def beam_search(
    reading: EncodedInput,
    rows: int,
    *,
    sos: int | Tensor,
    eos: int,
    beam: int,
    alpha: float,
    maximum: Tensor | Sequence[int],
    minimum: int = 0,
    n_best: int = 1,
    banned: Sequence[int] = (),
    banned_sequences: Sequence[Sequence[int]] = (),
    prompts: Sequence[Sequence[int]] | None = None,
    forced: Sequence[Sequence[int]] | None = None,
    sessions: CapturedGraphs | None = None,
) -> list[list[Hypothesis]]:
    """Per row of what was read, its n_best hypotheses, best first; fewer only where the model has no more to offer.

    `sos` is the first token, of all rows or of each; `maximum` limits each row's tokens, eos counted; a hypothesis ends after
    `minimum` tokens or more. What is banned and forced, and `sessions`, are as in `greedy`; lanes part where nothing is forced.
    """
    check_beam(beam, alpha, n_best)
    bans = Rules(eos=eos, banned=tuple(banned), banned_sequences=tuple(map(tuple, banned_sequences)), minimum=minimum)
    rules = replace(bans, beam=beam, alpha=alpha, n_best=n_best)
    return find(Beam, rules, reading, openings(reading, rows, sos, maximum, prompts=prompts, forced=forced), sessions)


class Board(NamedTuple):
    """Where each sentence stands: its W lanes, best first, and the N best that have finished."""

    newest_SW: Tensor
    tail_SWN: Tensor  # as many of the latest tokens as banned sequences look back on
    forced_ST: Tensor  # of no width where nothing is forced
    total_SW: Tensor  # float64; a dead lane totals -inf
    node_SW: Tensor  # the candidate of the latest step that each lane is
    reach_S: Tensor  # the divisor of the longest that is allowed
    score_SN: Tensor  # -inf where nothing has finished yet
    end_SN: Tensor  # step x C + candidate

    @classmethod
    def room(cls, rules: Rules, room: Room, device: torch.device) -> Board:
        def part(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(room.sentences, *shape, dtype=dtype, device=device)

        return cls(
            newest_SW=part(rules.beam),
            tail_SWN=part(rules.beam, rules.look_back),
            forced_ST=part(room.tokens if room.forced else 0),
            total_SW=part(rules.beam, dtype=torch.float64),
            node_SW=part(rules.beam),
            reach_S=part(dtype=torch.float64),
            score_SN=part(rules.n_best, dtype=torch.float64),
            end_SN=part(rules.n_best),
        )

    def first(self, sentences: int) -> Board:
        return Board(*(part[:sentences] for part in self))


class Beam:
    def __init__(self, rules: Rules, reading: EncodedInput, room: Room) -> None:
        self.rules, self.width, device = rules, 2 * rules.beam, reading.device
        self.state = reading.room(room.sentences, rules.beam, room.tokens, fixed=room.fixed)
        self.progress = Progress(room.sentences, device)
        self.offers = Candidates(rules, device, fixed=room.fixed)
        self.room = self.board = Board.room(rules, room, device)
        self.forest = self.tree = Tree.room(room.sentences, self.width, room.tokens, device)
        self.rank_W = torch.arange(rules.beam, device=device)
        self.divisor_T = length_divisor(torch.arange(1, room.tokens + 1, device=device).double(), rules.alpha)

    def begin(self, reading: EncodedInput, openings: Prompts) -> None:
        """One empty path alive per sentence: the first lane's."""
        board = self.board = self.room
        self.tree = self.forest
        openings.take(self.state, reading, len(board.newest_SW))
        self.progress.begin(openings.limits)
        board.newest_SW[: len(openings.limits)] = openings.first_S[:, None]
        openings.write_prompts(board.tail_SWN[:, 0])
        openings.write_forced(board.forced_ST)
        board.total_SW.fill_(-torch.inf)[:, 0] = 0.0
        board.node_SW.zero_()
        board.reach_S.copy_(length_divisor(self.progress.limit_S.double(), self.rules.alpha))
        board.score_SN.fill_(-torch.inf)

    def advance(self) -> None:
        board, progress, beam = self.board, self.progress, self.rules.beam
        logits_BV = self.state.step(board.newest_SW).flatten(0, 1)
        tail_BN = board.tail_SWN.flatten(0, 1) if self.rules.banned_sequences else None
        offered = self.offers.best(logits_BV, self.width, progress.step_1, tail_BN, self._forced_B1())
        candidates = rank(board.total_SW, offered.logprob_BK, offered.token_BK, self.width)
        self.tree.grow(progress.step_1, candidates, board.node_SW)
        ends_SC = candidates.token_SC == self.rules.eos
        self._finish(candidates, ends_SC)
        self.state.select(self._go_on(candidates, ends_SC))
        all_end_S = (ends_SC | candidates.total_SC.isneginf())[:, :beam].all(1)
        beaten_S = board.total_SW[:, 0] / board.reach_S <= board.score_SN[:, -1]
        progress.advance(all_end_S | beaten_S, offered.broken_B.view_as(board.node_SW).any(1))

    def _forced_B1(self) -> Tensor | None:
        """For all lanes of a sentence the same, so of what the first offers one goes on, and no other lane is alive."""
        board = self.board
        if not board.forced_ST.shape[1]:
            return None
        return board.forced_ST.index_select(1, self.progress.step_1).expand_as(board.newest_SW).reshape(-1, 1)

    def _finish(self, candidates: BeamCandidates, ends_SC: Tensor) -> None:
        """Ends ranked beyond the beam do not count: whatever they lost to lives on. Ties: what had finished before."""
        board, progress, beam = self.board, self.progress, self.rules.beam
        not_now_SW = ~ends_SC[:, :beam] | progress.done_S[:, None]
        total_SW = candidates.total_SC[:, :beam].masked_fill(not_now_SW, -torch.inf)
        score_SW = total_SW / self.divisor_T.index_select(0, progress.step_1)
        end_SW = (self.rank_W + progress.step_1 * self.width).expand_as(score_SW)
        score_SM, end_SM = torch.cat([board.score_SN, score_SW], 1), torch.cat([board.end_SN, end_SW], 1)
        order_SN = score_SM.argsort(dim=1, descending=True, stable=True)[:, : self.rules.n_best]
        board.score_SN.copy_(score_SM.gather(1, order_SN))
        board.end_SN.copy_(end_SM.gather(1, order_SN))

    def _go_on(self, candidates: BeamCandidates, ends_SC: Tensor) -> Tensor:
        """Lanes become the best candidates that do not end; returns the lane that each goes on from."""
        board, done_S1 = self.board, self.progress.done_S[:, None]
        node_SW = ends_SC.long().argsort(dim=1, stable=True)[:, : self.rules.beam]
        total_SW = candidates.total_SC.masked_fill(ends_SC, -torch.inf).gather(1, node_SW)
        board.total_SW.copy_(torch.where(done_S1, board.total_SW, total_SW))
        board.node_SW.copy_(torch.where(done_S1, board.node_SW, node_SW))
        board.newest_SW.copy_(candidates.token_SC.gather(1, node_SW))
        lane_SW = candidates.lane_SC.gather(1, node_SW)
        if self.rules.look_back:
            tail_SWN = board.tail_SWN.gather(1, lane_SW[..., None].expand_as(board.tail_SWN))
            board.tail_SWN.copy_(torch.cat([tail_SWN[..., 1:], board.newest_SW[..., None]], 2))
        return lane_SW

    def keep(self, moves: RowCompaction) -> None:
        for part_S in (*self.board, *self.tree):
            moves.within(part_S)
        self.board = self.room.first(moves.stay)
        self.tree = Tree(*(part[: moves.stay] for part in self.forest))
        self.state.keep(moves)
        self.progress.keep(moves)

    def written(self, rows_R: Tensor, since: int) -> list[list[int]]:
        """Any lane may still lose to any other, so nothing is settled before a sentence is done."""
        return [[] for _ in rows_R]

    def hypotheses(self, rows_R: Tensor) -> list[list[Hypothesis]]:
        lengths = self.progress.length_S[rows_R].tolist()
        board = (self.board.score_SN, self.board.end_SN, self.board.total_SW, self.board.node_SW)
        sentences = zip(self.tree.read(rows_R, max(lengths)), lengths, *(part[rows_R].tolist() for part in board))
        return [self._hypotheses(*sentence) for sentence in sentences]

    def _hypotheses(
        self, twigs: Paths, length: int, scores: list[float], ends: list[int], totals: list[float], nodes: list[int]
    ) -> list[Hypothesis]:
        """Finished ones, then unfinished; where nothing at all could follow, the best path up to there."""
        finished = [twigs.path(end % self.width, end // self.width) for end, score in zip(ends, scores) if score > -torch.inf]
        alive: list[Path] = [twigs.path(node, length - 1) for node, total in zip(nodes, totals) if total > -torch.inf]
        if not finished and not alive:
            alive = [twigs.path(twigs.parents[0][length - 1], length - 2)]
        alpha = self.rules.alpha
        found = [hypothesis(*path, finished=True, alpha=alpha) for path in finished]
        found += [hypothesis(*path, finished=False, alpha=alpha) for path in alive]
        return found[: self.rules.n_best]


Path = tuple[list[int], list[float]]  # tokens and their log-probabilities


class BeamCandidates(NamedTuple):
    """One-token continuations of a sentence's lanes, most probable first."""

    lane_SC: Tensor  # the lane continued
    token_SC: Tensor
    logprob_SC: Tensor
    total_SC: Tensor


def rank(total_SW: Tensor, logprob_BK: Tensor, token_BK: Tensor, count: int) -> BeamCandidates:
    """The `count` best of each sentence, of the K offered to each lane. Ties: better lane first."""
    sentences, lanes = total_SW.shape
    logprob_SWK = logprob_BK.view(sentences, lanes, -1)
    total_SN = (total_SW[..., None] + logprob_SWK).flatten(1)
    total_SN, index_SN = total_SN.sort(dim=1, descending=True, stable=True)
    index_SC = index_SN[:, :count]
    return BeamCandidates(
        lane_SC=index_SC // logprob_SWK.shape[2],
        token_SC=token_BK.view(sentences, -1).gather(1, index_SC),
        logprob_SC=logprob_SWK.flatten(1).gather(1, index_SC),
        total_SC=total_SN[:, :count],
    )


class Tree(NamedTuple):
    tokens_SCT: Tensor
    logprobs_SCT: Tensor
    parents_SCT: Tensor

    @classmethod
    def room(cls, sentences: int, candidates: int, steps: int, device: torch.device) -> Tree:
        tokens_SCT = torch.zeros(sentences, candidates, steps, dtype=torch.long, device=device)
        return cls(tokens_SCT, tokens_SCT.float(), tokens_SCT.clone())

    def grow(self, step_1: Tensor, candidates: BeamCandidates, node_SW: Tensor) -> None:
        """Write this step's nodes; until now lane w was node_SW[s, w] of the step before."""
        parent_SC = node_SW.gather(1, candidates.lane_SC)
        for part_SCT, new_SC in zip(self, (candidates.token_SC, candidates.logprob_SC, parent_SC)):
            part_SCT.index_copy_(2, step_1, new_SC[..., None])

    def read(self, rows_R: Tensor, steps: int) -> list[Paths]:
        return [Paths(*parts) for parts in zip(*(part_SCT[rows_R, :, :steps].tolist() for part_SCT in self))]


class Paths(NamedTuple):
    """One sentence's part of the tree, on the host; indexed by candidate, then step."""

    tokens: Sequence[Sequence[int]]
    logprobs: Sequence[Sequence[float]]
    parents: Sequence[Sequence[int]]

    def path(self, node: int, step: int) -> Path:
        """From the first step to this node of this one."""
        backwards = []
        for t in range(step, -1, -1):
            backwards.append((self.tokens[node][t], self.logprobs[node][t]))
            node = self.parents[node][t]
        tokens, logprobs = zip(*reversed(backwards)) if backwards else ((), ())
        return list(tokens), list(logprobs)
