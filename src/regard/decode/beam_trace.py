"""A beam search as a tree, for people who want to see what it dropped: every candidate of every step, and what became of it.

The search itself keeps its candidates as nodes that point to what they continue (`paths`), so nothing is recorded while it runs:
when it is done, its nodes are read. One sentence at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isinf
from typing import Any, Literal

import torch

from regard.decode.beam import Beam, Paths
from regard.decode.config import check_beam
from regard.decode.hypothesis import Hypothesis, length_divisor
from regard.decode.loop import find
from regard.decode.prompts import openings
from regard.decode.rules import Room, Rules
from regard.model.state.protocol import EncodedInput

Fate = Literal["alive", "finished", "pruned"]


@dataclass(frozen=True)
class Node:
    step: int
    rank: int  # among the candidates of its step, by total
    parent: int | None  # rank of what it continues, in the step before; None: the start
    token: int
    logprob: float
    total: float  # of all tokens up to here
    score: float  # total / length divisor: what finished hypotheses are ranked by
    fate: Fate  # kept for the next step, ended here, or dropped
    ends: bool  # it is the end token, whatever became of it
    best: bool = False  # on the way to what was found best


@dataclass(frozen=True)
class SearchTree:
    steps: tuple[tuple[Node, ...], ...]
    hypotheses: tuple[Hypothesis, ...]
    beam: int
    alpha: float
    forced: int  # tokens that the search was given

    def path(self, step: int, rank: int) -> list[Node]:
        """From the first token to this node."""
        backwards, at = [], (step, rank)
        while at[0] >= 0:
            node = next(node for node in self.steps[at[0]] if node.rank == at[1])
            backwards.append(node)
            at = (at[0] - 1, node.parent or 0)
        return backwards[::-1]

    def as_dict(self) -> dict[str, Any]:
        """Numbers alone; whoever knows the vocabulary adds the words."""
        return {
            "steps": [[asdict(node) for node in step] for step in self.steps],
            "hypotheses": [hypothesis._asdict() for hypothesis in self.hypotheses],
            "beam": self.beam,
            "alpha": self.alpha,
            "forced": self.forced,
        }


@torch.no_grad()
def beam_tree(
    reading: EncodedInput,
    *,
    sos: int,
    eos: int,
    beam: int,
    alpha: float,
    maximum: int,
    minimum: int = 0,
    banned: Sequence[int] = (),
    banned_sequences: Sequence[Sequence[int]] = (),
    forced: Sequence[int] = (),
) -> SearchTree:
    """The search that `beam_search` does for the one row of what was read, all of its candidates kept; n_best is the beam."""
    check_beam(beam, alpha, beam)
    rules = Rules(
        eos=eos,
        banned=tuple(banned),
        banned_sequences=tuple(map(tuple, banned_sequences)),
        minimum=minimum,
        beam=beam,
        alpha=alpha,
        n_best=beam,
    )
    done: list[Beam] = []

    def kind(rules: Rules, reading: EncodedInput, room: Room) -> Beam:
        done.append(Beam(rules, reading, room))
        return done[-1]

    opening = openings(reading, 1, sos, [maximum], forced=[list(forced)] if forced else None)
    (found,) = find(kind, rules, reading, opening, None)
    (search,) = done
    length = int(search.progress.length_S[0])
    (twigs,) = search.tree.read(torch.tensor([0], device=reading.device), length)
    steps = _grown(twigs, length, rules)
    tree = SearchTree(steps, tuple(found), beam, alpha, len(forced))
    return replace(tree, steps=_best_marked(tree, found[0], eos)) if found else tree


def _grown(twigs: Paths, length: int, rules: Rules) -> tuple[tuple[Node, ...], ...]:
    steps: list[tuple[Node, ...]] = []
    totals: dict[int, float] = {0: 0.0}
    for step in range(length):
        nodes, alive, divisor = list[Node](), 0, length_divisor(step + 1, rules.alpha)
        for rank, (tokens, logprobs, parents) in enumerate(zip(*twigs)):
            parent = parents[step] if step else 0
            again = step == 0 and tokens[0] in {node.token for node in nodes}  # all lanes but the first begin dead
            if isinf(logprobs[step]) or parent not in totals or again:
                continue
            total, ends = totals[parent] + logprobs[step], tokens[step] == rules.eos
            alive += not ends
            kept = rank < rules.beam if ends else alive <= rules.beam
            fate: Fate = "pruned" if not kept else "finished" if ends else "alive"
            nodes.append(
                Node(step, rank, parent if step else None, tokens[step], logprobs[step], total, total / divisor, fate, ends)
            )
        steps.append(tuple(nodes))
        totals = {node.rank: node.total for node in nodes if node.fate == "alive"}
    return tuple(steps)


def _best_marked(tree: SearchTree, best: Hypothesis, eos: int) -> tuple[tuple[Node, ...], ...]:
    tokens = [*best.ids, *([eos] if best.finished else [])]
    for node in tree.steps[len(tokens) - 1] if tokens else ():
        path = tree.path(node.step, node.rank)
        if [step.token for step in path] == tokens:
            way = {(step.step, step.rank) for step in path}
            return tuple(tuple(replace(n, best=(n.step, n.rank) in way) for n in step) for step in tree.steps)
    return tree.steps
