"""Beam search: keep the most probable hypotheses alive, and stop only when none of them can still win.

Wu et al. 2016 (GNMT), section 7, and Vaswani et al. 2017, section 6.1. At each step a sentence ranks its 2 x beam best
continuations. Those among the first `beam` that end are finished and compete by length-normalised score; the search
goes on with the `beam` best that do not end. A sentence is done when

- no live hypothesis can reach the worst of its n_best finished ones, even if all its further tokens were certain and as
  many as allowed (the divisor grows with length, so that is the best case), or
- its `beam` best continuations all end. With a beam of one this is greedy search; with a beam wider than the number of all
  outputs no output is ever dropped, and the search is exhaustive, or
- it reaches its limit. Hypotheses that are alive then count as unfinished, after all finished ones; or, with `rank_cut`, they
  compete with them.

Other rules, those of transformers among them, are `EarlyStopping` in `config.py`.

Differs from the papers in: no coverage penalty, no pruning by relative score.

Paths are kept as a tree that only grows, so no hypothesis is copied while it is alive. Each of the C candidates that a step ranks
is a node: its token, its log-probability, and the candidate of the step before that it continues. A lane, or a finished
hypothesis, is a reference to a node; its text is read from the tree when the sentence leaves.

Dims: S sentences, W lanes, B = S x W, K candidates of a lane, C candidates of a sentence, T steps, N finished or context tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decode.algorithm import BufferSizes, Progress
from regard.decode.candidates import Candidates, RankedCandidates, rank
from regard.decode.config import BeamSettings
from regard.decode.request import Hypothesis, SearchRequest, length_divisor
from regard.model.state.protocol import RowCompaction


class BeamSearch:
    """Beam search for all sentences at once; `advance` is one step of it."""

    def __init__(self, request: SearchRequest, sizes: BufferSizes) -> None:
        assert isinstance(request.method, BeamSettings)
        self.settings, self.constraints, device = request.method, request.constraints, request.encoded.device
        self.beam, self.candidate_count = self.settings.beam, (1 + len(self.constraints.ends)) * self.settings.beam
        self.first_free = 0
        self.state = request.encoded.make_state(sizes.sentences, self.beam, sizes.tokens, fixed=sizes.fixed)
        self.progress = Progress(sizes.sentences, device)
        self.candidates = Candidates(self.constraints, device, fixed=sizes.fixed)
        # N-grams are compared with the whole text, banned sequences with its end.
        compared = sizes.prompt + sizes.tokens if self.constraints.no_repeat_ngram else self.constraints.context
        self.allocated_lanes = self.lanes = Lanes.allocate(self.settings, compared, sizes, device)
        self.allocated_tree = self.tree = PathTree.allocate(sizes.sentences, self.candidate_count, sizes.tokens, device)
        self.rank_W = torch.arange(self.beam, device=device)
        steps_T = torch.arange(1, sizes.tokens + 1, device=device).double()
        self.divisor_T = length_divisor(steps_T, self.settings.length_penalty, self.settings.length_formula)

    def begin(self, request: SearchRequest) -> None:
        """Start each sentence with one empty path: the first lane is alive, the others are dead."""
        lanes = self.lanes = self.allocated_lanes
        self.tree = self.allocated_tree
        request.load(self.state, len(lanes.newest_SW))
        self.progress.begin(request.text_limits)
        lanes.newest_SW[: len(request.text_limits)] = request.first_S[:, None]
        request.write_prompts(lanes.tail_SWN[:, 0])
        request.write_forced(lanes.forced_ST)
        lanes.total_SW.fill_(-torch.inf)[:, 0] = 0.0
        lanes.node_SW.zero_()
        penalty, formula = self.settings.length_penalty, self.settings.length_formula
        lanes.longest_divisor_S.copy_(length_divisor(self.progress.limit_S.double().clamp(min=1), penalty, formula))
        self.first_free = request.first_free
        lanes.finished_score_SN.fill_(-torch.inf)

    def advance(self) -> None:
        self.take(self.state.step(self.lanes.newest_SW))

    @property
    def newest_SW(self) -> Tensor:
        return self.lanes.newest_SW

    def take(self, logits_SWV: Tensor) -> None:
        lanes, progress, logits_BV = self.lanes, self.progress, logits_SWV.flatten(0, 1)
        # The best next tokens of each lane.
        compared = self.constraints.banned_sequences or self.constraints.no_repeat_ngram
        tail_BN = lanes.tail_SWN.flatten(0, 1) if compared else None
        more = (self._forced_B1(), tail_BN, self.first_free)
        latest_BN = None if tail_BN is None else tail_BN[:, tail_BN.shape[1] - self.constraints.context :]
        step_B1 = progress.step_S[:, None].expand_as(lanes.newest_SW).reshape(-1, 1)
        top = self.candidates.best(logits_BV, self.candidate_count, step_B1, latest_BN, *more)
        # The best continuations of each sentence, over all its lanes, become nodes of the tree.
        ranked = rank(lanes.total_SW, top.logprob_BK, top.token_BK, self.candidate_count)
        self.tree.grow(progress.step_S, ranked, lanes.node_SW)
        # Those that end compete with the finished hypotheses; the best of the others become the lanes.
        ends_SC = self.constraints.is_end(ranked.token_SC)
        last_S1 = (progress.step_S + 1 >= progress.limit_S[: progress.sentences])[:, None]
        self._finish(ranked, ends_SC | last_S1 if self.settings.rank_cut else ends_SC)
        self.state.select(self._continue(ranked, ends_SC))
        progress.advance(self._done_S(ranked, ends_SC), top.broken_B.view_as(lanes.node_SW).any(1))

    def _done_S(self, ranked: RankedCandidates, ends_SC: Tensor) -> Tensor:
        """Return which sentences are done after this step, by the rule that the settings name (`EarlyStopping`)."""
        lanes, rule = self.lanes, self.settings.early_stopping
        dead_SC = ranked.total_SC.isneginf()
        worst_S = lanes.finished_score_SN[:, -1]
        if rule == "full":
            return ~worst_S.isneginf() | dead_SC.all(1)
        divisor_S = self.divisor_T[self.progress.step_S] if rule == "likely" else lanes.longest_divisor_S
        beaten_S = lanes.total_SW[:, 0] / divisor_S <= worst_S
        return beaten_S | ((ends_SC | dead_SC)[:, : self.beam].all(1) if rule == "bound" else dead_SC.all(1))

    def _forced_B1(self) -> Tensor | None:
        """Return the forced token of each lane.

        It is the same for all lanes of a sentence, so only the first lane stays alive.
        """
        lanes, progress = self.lanes, self.progress
        token_S1 = self.constraints.forced_now(lanes.forced_ST, progress.step_S[:, None], progress.limit_S[: progress.sentences])
        return None if token_S1 is None else token_S1.expand_as(lanes.newest_SW).reshape(-1, 1)

    def _finish(self, ranked: RankedCandidates, ends_SC: Tensor) -> None:
        """Add continuations that end to the n_best finished ones. Of equal scores, the earlier one is kept.

        Ends that are ranked beyond the beam do not count: the candidates ranked above them are still alive.
        """
        lanes, progress = self.lanes, self.progress
        excluded_SW = ~ends_SC[:, : self.beam] | progress.done_S[:, None]
        total_SW = ranked.total_SC[:, : self.beam].masked_fill(excluded_SW, -torch.inf)
        score_SW = total_SW / self.divisor_T[progress.step_S][:, None]
        node_SW = self.rank_W + progress.step_S[:, None] * self.candidate_count
        score_SM = torch.cat([lanes.finished_score_SN, score_SW], 1)
        node_SM = torch.cat([lanes.finished_node_SN, node_SW], 1)
        order_SN = score_SM.argsort(dim=1, descending=True, stable=True)[:, : self.settings.kept]
        lanes.finished_score_SN.copy_(score_SM.gather(1, order_SN))
        lanes.finished_node_SN.copy_(node_SM.gather(1, order_SN))

    def _continue(self, ranked: RankedCandidates, ends_SC: Tensor) -> Tensor:
        """Make the best candidates that do not end the new lanes; return parent_SW, the lane that each of them continues."""
        lanes, done_S1 = self.lanes, self.progress.done_S[:, None]
        node_SW = ends_SC.long().argsort(dim=1, stable=True)[:, : self.beam]
        total_SW = ranked.total_SC.masked_fill(ends_SC, -torch.inf).gather(1, node_SW)
        lanes.total_SW.copy_(torch.where(done_S1, lanes.total_SW, total_SW))
        lanes.node_SW.copy_(torch.where(done_S1, lanes.node_SW, node_SW))
        lanes.newest_SW.copy_(ranked.token_SC.gather(1, node_SW))
        parent_SW = ranked.lane_SC.gather(1, node_SW)
        if lanes.tail_SWN.shape[2]:
            tail_SWN = lanes.tail_SWN.gather(1, parent_SW[..., None].expand_as(lanes.tail_SWN))
            lanes.tail_SWN.copy_(torch.cat([tail_SWN[..., 1:], lanes.newest_SW[..., None]], 2))
        return parent_SW

    def compact(self, moves: RowCompaction) -> None:
        for buffer_S in (*self.lanes, *self.tree):
            moves.within(buffer_S)
        self.lanes = Lanes(*(buffer_S[: moves.stay] for buffer_S in self.allocated_lanes))
        self.tree = PathTree(*(buffer_S[: moves.stay] for buffer_S in self.allocated_tree))
        self.state.compact(moves)
        self.progress.compact(moves)

    def written(self, rows_R: Tensor, since: int) -> list[list[int]]:
        """Return nothing: any lane may still lose to any other, so no token is certain before a sentence is done."""
        return [[] for _ in rows_R]

    def hypotheses(self, rows_R: Tensor) -> list[list[Hypothesis]]:
        lanes, lengths = self.lanes, self.progress.length_S[rows_R].tolist()
        parts = (lanes.finished_score_SN, lanes.finished_node_SN, lanes.total_SW, lanes.node_SW)
        sentences = zip(self.tree.read(rows_R, max(lengths)), lengths, *(part[rows_R].tolist() for part in parts))
        return [self._hypotheses(*sentence) for sentence in sentences]

    def _hypotheses(
        self, paths: Paths, length: int, scores: list[float], ends: list[int], totals: list[float], nodes: list[int]
    ) -> list[Hypothesis]:
        """Return finished hypotheses, then unfinished ones; where no token was possible at all, the best path up to there."""
        count, settings = self.candidate_count, self.settings
        finished = [paths.path(end % count, end // count) for end, score in zip(ends, scores) if score > -torch.inf]
        alive = [paths.path(node, length - 1) for node, total in zip(nodes, totals) if total > -torch.inf]
        if not finished and not alive:
            alive = [paths.path(paths.parents[0][length - 1], length - 2)]
        alike: dict[str, Any] = {"length_penalty": settings.length_penalty, "formula": settings.length_formula}
        tokens = self.constraints.ends
        found = [Hypothesis.of(*path, finished=path[0][-1] in tokens, **alike) for path in finished]  # else cut, but ranked
        if not (settings.rank_cut and finished):
            found += [Hypothesis.of(*path, finished=False, **alike) for path in alive]
        return found[: settings.n_best]


class Lanes(NamedTuple):
    """The W lanes of each sentence, best first, and its N best finished hypotheses."""

    newest_SW: Tensor
    tail_SWN: Tensor  # the latest tokens, as many as banned sequences compare
    forced_ST: Tensor  # of width 0 where no token is forced
    total_SW: Tensor  # float64 sum of log-probabilities; -inf: a dead lane
    node_SW: Tensor  # the candidate of the latest step that each lane is
    longest_divisor_S: Tensor  # the length divisor at the limit
    finished_score_SN: Tensor  # -inf where no hypothesis has finished yet
    finished_node_SN: Tensor  # step x C + candidate

    @classmethod
    def allocate(cls, settings: BeamSettings, context: int, sizes: BufferSizes, device: torch.device) -> Lanes:
        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(sizes.sentences, *shape, dtype=dtype, device=device)

        return cls(
            newest_SW=zeros(settings.beam),
            tail_SWN=zeros(settings.beam, context),
            forced_ST=zeros(sizes.tokens if sizes.forced else 0),
            total_SW=zeros(settings.beam, dtype=torch.float64),
            node_SW=zeros(settings.beam),
            longest_divisor_S=zeros(dtype=torch.float64),
            finished_score_SN=zeros(settings.kept, dtype=torch.float64),
            finished_node_SN=zeros(settings.kept),
        )


class PathTree(NamedTuple):
    """Every candidate of every step, on the device."""

    tokens_SCT: Tensor
    logprobs_SCT: Tensor
    parents_SCT: Tensor  # the candidate of the step before

    @classmethod
    def allocate(cls, sentences: int, candidates: int, steps: int, device: torch.device) -> PathTree:
        tokens_SCT = torch.zeros(sentences, candidates, steps, dtype=torch.long, device=device)
        return cls(tokens_SCT, tokens_SCT.float(), tokens_SCT.clone())

    def grow(self, step_S: Tensor, ranked: RankedCandidates, node_SW: Tensor) -> None:
        """Write the nodes of this step; `node_SW` is the node of the step before at which each lane stands."""
        parent_SC = node_SW.gather(1, ranked.lane_SC)
        for part_SCT, new_SC in zip(self, (ranked.token_SC, ranked.logprob_SC, parent_SC)):
            part_SCT.scatter_(2, step_S[:, None, None].expand(*new_SC.shape, 1), new_SC[..., None])

    def read(self, rows_R: Tensor, steps: int) -> list[Paths]:
        return [Paths(*parts) for parts in zip(*(part_SCT[rows_R, :, :steps].tolist() for part_SCT in self))]


class Paths(NamedTuple):
    """The tree of one sentence, on the host; indexed by candidate, then step."""

    tokens: Sequence[Sequence[int]]
    logprobs: Sequence[Sequence[float]]
    parents: Sequence[Sequence[int]]

    def path(self, node: int, step: int) -> tuple[list[int], list[float]]:
        """Return tokens and log-probabilities from the first step to this node of this step."""
        backwards = []
        for t in range(step, -1, -1):
            backwards.append((self.tokens[node][t], self.logprobs[node][t]))
            node = self.parents[node][t]
        tokens, logprobs = zip(*reversed(backwards)) if backwards else ((), ())
        return list(tokens), list(logprobs)
