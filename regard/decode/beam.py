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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.config import check_beam
from regard.decode.hypothesis import Hypothesis, length_divisor, row_limits
from regard.decode.offers import Offers
from regard.decode.paths import Candidates, Paths, choose
from regard.model.state import State


class Search(NamedTuple):
    """All sentences still searched, and where each stands."""

    sentence_S: Tensor  # its place in the caller's batch
    limit_S: Tensor
    live: Paths
    kept: Paths  # n_best finished ones, best first

    @classmethod
    def start(cls, limit_S: Tensor, n_best: int) -> Search:
        """One empty path alive per sentence, and none kept."""
        rows, device = len(limit_S), limit_S.device
        live, kept = Paths.empty(rows, 1, 0.0, device), Paths.empty(rows, n_best, -torch.inf, device)
        return cls(torch.arange(rows, device=device), limit_S, live, kept)

    def only(self, rows: Tensor) -> Search:
        return Search(self.sentence_S[rows], self.limit_S[rows], self.live.sentences(rows), self.kept.sentences(rows))


@torch.no_grad()
def beam_search(
    state: State,
    rows: int,
    *,
    sos: int,
    eos: int,
    beam: int,
    alpha: float,
    maximum: Tensor | Sequence[int],
    minimum: int = 0,
    n_best: int = 1,
    banned: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Per row of `state`, its n_best hypotheses, best first; fewer only where the model has no more to offer.

    `maximum` limits each row's tokens, eos counted, and says by its device where to run; a hypothesis ends after
    `minimum` tokens or more; `banned` tokens never come out.
    """
    check_beam(beam, alpha, n_best)
    search = Search.start(row_limits(maximum, rows), n_best)
    offers = Offers(eos=eos, banned=banned, minimum=minimum, device=search.limit_S.device)
    newest_SW = torch.full((rows, 1), sos, device=search.limit_S.device)
    outputs: dict[int, list[Hypothesis]] = {}
    while len(outputs) < rows:
        before = search.live
        position = before.tokens_SWT.shape[-1]
        logprob_BK, token_BK = offers.best(state.step(newest_SW).flatten(0, 1), 2 * beam, position)
        candidates = before.candidates(logprob_BK, token_BK, 2 * beam)
        search, parent_SW, done_S = _advance(search, candidates, beam, alpha, eos)
        leave, stay = done_S.nonzero().flatten(), (~done_S).nonzero().flatten()
        if len(leave):
            found = _hypotheses(search.only(leave), before.sentences(leave), alpha, n_best)
            outputs.update(zip(search.sentence_S[leave].tolist(), found))
        if len(stay):
            state.select(parent_SW[stay], stay if len(leave) else None)
            search = search.only(stay)
            newest_SW = search.live.tokens_SWT[..., -1]
    return [outputs[row] for row in range(rows)]


def _advance(search: Search, candidates: Candidates, beam: int, alpha: float, eos: int) -> tuple[Search, Tensor, Tensor]:
    """The search one token on, the live path each new one came from, and which sentences are done."""
    ends_SC = candidates.token_SC == eos
    alive_SC = ~candidates.total_SC.isneginf()
    kept = search.kept
    if ends_SC.any():
        # Ends ranked beyond the beam do not count: whatever they lost to lives on.
        first = Candidates(*(part[:, :beam] for part in candidates))
        ended = first._replace(total_SC=first.total_SC.masked_fill(~ends_SC[:, :beam], -torch.inf))
        kept = kept.best_with(search.live.follow(ended), alpha)

    slots_SW = ends_SC.long().argsort(dim=1, stable=True)[:, :beam]  # those that go on, best first
    going = candidates._replace(total_SC=candidates.total_SC.masked_fill(ends_SC, -torch.inf))
    chosen = choose(going, slots_SW)
    live = search.live.follow(chosen)

    all_end_S = ~(alive_SC & ~ends_SC)[:, :beam].any(1)
    reachable_S = live.total_SW[:, 0] / length_divisor(search.limit_S.double(), alpha)
    beaten_S = reachable_S <= kept.score(alpha)[:, -1]
    done_S = all_end_S | beaten_S | (live.tokens_SWT.shape[-1] >= search.limit_S)
    return search._replace(live=live, kept=kept), chosen.parent_SC, done_S


def _hypotheses(search: Search, before: Paths, alpha: float, n_best: int) -> list[list[Hypothesis]]:
    """Finished ones, then unfinished; where nothing at all could follow, the best path up to there."""
    finished = search.kept.hypotheses(alpha, finished=True)
    unfinished = search.live.hypotheses(alpha, finished=False)
    found = [(some + more)[:n_best] for some, more in zip(finished, unfinished)]
    if not all(found):
        stuck = before.hypotheses(alpha, finished=False)
        found = [some or last[:1] for some, last in zip(found, stuck)]
    return found
