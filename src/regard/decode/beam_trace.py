"""A beam search as a tree, to show what the search dropped: every candidate of every step, and whether it was kept.

The search keeps its candidates as nodes that point to their parents (`beam.PathTree`), so nothing is recorded while it runs: its
nodes are read when it is done. One sentence at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isinf
from typing import Any, Literal

import torch

from regard.decode.algorithm import BufferSizes
from regard.decode.beam import BeamSearch, Paths
from regard.decode.config import BeamSettings
from regard.decode.request import Hypothesis, SearchRequest, length_divisor
from regard.decode.search import run

Fate = Literal["alive", "finished", "pruned"]


@dataclass(frozen=True)
class Node:
    """One candidate of one step."""

    step: int
    rank: int  # among the candidates of its step, by total
    parent: int | None  # rank of the node that it continues, in the step before; None: the start
    token: int
    logprob: float
    total: float  # of all tokens up to here
    score: float  # total / length divisor; finished hypotheses are ranked by it
    fate: Fate  # kept for the next step, ended here, or dropped
    ends: bool  # it is the end token
    best: bool = False  # on the path of the best hypothesis


@dataclass(frozen=True)
class SearchTree:
    """Every candidate of a beam search of one sentence, and the hypotheses that it found."""

    steps: tuple[tuple[Node, ...], ...]
    hypotheses: tuple[Hypothesis, ...]
    beam: int
    alpha: float
    forced: int  # tokens at the start that the request forced

    def path(self, step: int, rank: int) -> list[Node]:
        """Return the nodes from the first token to this one."""
        backwards, at = [], (step, rank)
        while at[0] >= 0:
            node = next(node for node in self.steps[at[0]] if node.rank == at[1])
            backwards.append(node)
            at = (at[0] - 1, node.parent or 0)
        return backwards[::-1]

    def as_dict(self) -> dict[str, Any]:
        """Return the tree with token ids; the caller adds the words."""
        return {
            "steps": [[asdict(node) for node in step] for step in self.steps],
            "hypotheses": [hypothesis._asdict() for hypothesis in self.hypotheses],
            "beam": self.beam,
            "alpha": self.alpha,
            "forced": self.forced,
        }


@torch.no_grad()
def trace_beam(request: SearchRequest) -> SearchTree:
    """Return the tree of the beam search of this request, which has one row and whose n_best is its beam."""
    settings = request.method
    assert isinstance(settings, BeamSettings)
    assert request.rows == 1
    assert settings.n_best == settings.beam
    searches: list[BeamSearch] = []

    def keep_search(request: SearchRequest, sizes: BufferSizes) -> BeamSearch:
        searches.append(BeamSearch(request, sizes))
        return searches[-1]

    (found,) = run(keep_search, request)
    (search,) = searches
    length = int(search.progress.length_S[0])
    (paths,) = search.tree.read(torch.tensor([0], device=request.encoded.device), length)
    steps = _nodes(paths, length, settings, request.constraints.ends)
    forced = len(request.forced[0]) if request.forced else 0
    tree = SearchTree(steps, tuple(found), settings.beam, settings.length_penalty, forced)
    return replace(tree, steps=_mark_best(tree, found[0], request.constraints.ends)) if found else tree


def _nodes(paths: Paths, length: int, settings: BeamSettings, ends: Sequence[int]) -> tuple[tuple[Node, ...], ...]:
    steps: list[tuple[Node, ...]] = []
    totals: dict[int, float] = {0: 0.0}
    for step in range(length):
        nodes, alive, divisor = list[Node](), 0, length_divisor(step + 1, settings.length_penalty, settings.length_formula)
        for rank, (tokens, logprobs, parents) in enumerate(zip(*paths)):
            parent = parents[step] if step else 0
            again = step == 0 and tokens[0] in {node.token for node in nodes}  # all lanes but the first begin dead
            if isinf(logprobs[step]) or parent not in totals or again:
                continue
            total, ended = totals[parent] + logprobs[step], tokens[step] in ends
            alive += not ended
            kept = rank < settings.beam if ended else alive <= settings.beam
            fate: Fate = "pruned" if not kept else "finished" if ended else "alive"
            nodes.append(
                Node(step, rank, parent if step else None, tokens[step], logprobs[step], total, total / divisor, fate, ended)
            )
        steps.append(tuple(nodes))
        totals = {node.rank: node.total for node in nodes if node.fate == "alive"}
    return tuple(steps)


def _mark_best(tree: SearchTree, best: Hypothesis, ends: Sequence[int]) -> tuple[tuple[Node, ...], ...]:
    length = len(best.ids) + best.finished
    for node in tree.steps[length - 1] if length else ():
        path = tree.path(node.step, node.rank)
        tokens = [step.token for step in path]
        if tokens[: len(best.ids)] == best.ids and (not best.finished or tokens[-1] in ends):
            way = {(step.step, step.rank) for step in path}
            return tuple(tuple(replace(n, best=(n.step, n.rank) in way) for n in step) for step in tree.steps)
    return tree.steps
