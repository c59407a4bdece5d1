"""Attention rollout and flow: attention through all layers, from the last down to the words, with the residual stream.

Abnar & Zuidema 2020. Heads are averaged, and half of each step is the residual stream, which keeps a token where it is:

    rollout    the share of each word in each place, A_N ... A_1 with A = 0.5 W + 0.5 I
    flow       the most that can be sent from a place down to a word, when no step carries more than its A (maximum flow)

Differs from the paper in what it has no equation for: a decoder that looks back. Its steps are over the tokens written and the
source together; a cross-attention moves half of a place's share to the source as the encoder has left it.

Dims: T places, L of them queries, N words, M keys.

Maximum flow through layers of places, by Dinic's algorithm: shortest ways first, all of one length at a time.

Dinitz 1970. Places of one layer are linked to those of the layer below; a link carries at most its capacity. From one place of
the top layer, the most that can reach a word at the bottom is found for each word; residual links let what was sent be sent
otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.gradients import strongest, word_grid
from regard.lens.analyses.logit_lens import written_side
from regard.lens.display import report, visible
from regard.lens.result import NotebookView
from regard.lens.subject import Subject
from regard.model.probe import Seen

LONGEST = 2_048  # tokens of one pass: a step is a matrix of all places with all places
FLOWS = 40_000_000  # places × words × links: what a flow may take, about a minute
KEPT = 0.5  # of a step, what the residual stream keeps in its place


@dataclass(frozen=True)
class Mixed(NotebookView):
    """The share of each word in each place of the last layer; of a flow, the most that gets through."""

    title: str
    method: Literal["rollout", "flow"]
    places: tuple[str, ...]
    words: tuple[str, ...]
    stacks: tuple[str, ...]  # of each word
    shares_LN: np.ndarray

    def of(self, stack: str) -> np.ndarray:
        """Return the shares of each word of one stack, over all places."""
        return self.shares_LN[:, [n for n, own in enumerate(self.stacks) if own == stack]].sum(0)

    def lines(self) -> list[str]:
        rows = [[visible(place), strongest(self.words, shares_N)] for place, shares_N in zip(self.places, self.shares_LN)]
        told = {"rollout": "shares of words after all layers", "flow": "the most that could flow from words through all layers"}
        return report(self.title, f"attention {self.method}: {told[self.method]}", ["place", "words"], rows)

    def figure(self) -> Figure:
        caption = f"attention {self.method}: places down, words across"
        return word_grid(self.title, caption, self.shares_LN, self.places, self.words, self.stacks, signed=False)

    @property
    def FORMAT(self) -> str:  # type: ignore[override]
        return f"regard.{self.method}.1"


def rollout(subject: Subject) -> Mixed:
    steps = _steps(subject)
    shares_TT = np.eye(len(steps[0]))
    for step_TT in steps:
        shares_TT = step_TT @ shares_TT
    return _mixed(subject, "rollout", shares_TT)


def flow(subject: Subject) -> Mixed:
    steps = _steps(subject)
    network = Network.of(steps)
    places = _written(subject)
    work = len(places) * len(steps[0]) * network.links
    if work > FLOWS:
        raise UserError(
            f"attention flow over {len(steps[0])} tokens and {len(steps)} steps takes {work / FLOWS:.1f} times as long as it may;"
            " give a shorter text, or --show rollout, which has no such limit."
        )
    shares_TT = np.zeros_like(steps[0])
    for place in places:
        shares_TT[place] = maximum_flows(network, place)
    return _mixed(subject, "flow", shares_TT)


def _mixed(subject: Subject, method: Literal["rollout", "flow"], shares_TT: np.ndarray) -> Mixed:
    _, side = written_side(subject)
    return Mixed(subject.title, method, side.tokens, subject.tokens, subject.stacks, shares_TT[_written(subject)])


def _written(subject: Subject) -> list[int]:
    """The places of the last stack among those of all."""
    last, _ = written_side(subject)
    return [n for n, stack in enumerate(subject.stacks) if stack == last]


def _steps(subject: Subject) -> list[np.ndarray]:
    """One matrix a step, over the tokens of all stacks together; rows are sums to one. What a step leaves alone stays."""
    total = sum(len(side) for side in subject.sides.values())
    if total > LONGEST:
        raise UserError(f"the text has {total:,} tokens, but shares are multiplied for at most {LONGEST:,}; give a shorter one.")
    seen = subject.record()
    starts, at = {}, 0
    for stack, side in subject.sides.items():
        starts[stack], at = at, at + len(side)
    return [_step(subject.between(name), seen[name], starts, total) for name in seen]


def _step(between: tuple[str, str], seen: Seen, starts: dict[str, int], total: int) -> np.ndarray:
    weights_LM = mean_weights(seen)
    length, keys = weights_LM.shape
    row, column = (starts[side] for side in between)
    step_TT = np.eye(total)
    step_TT[row : row + length] *= KEPT
    step_TT[row : row + length, column : column + keys] += (1 - KEPT) * weights_LM
    return step_TT


@torch.no_grad()
def mean_weights(seen: Seen, heads: Sequence[int] | None = None) -> np.ndarray:
    """Return weights_LM, the mean over these heads, all if None; a fully masked query adds nothing."""
    heads = range(seen.q_BHLK.shape[1]) if heads is None else heads
    total = sum(seen.weights(heads=[head])[0, 0].double() for head in heads)
    mean = (total / len(heads)).cpu().numpy()  # type: ignore[union-attr]
    return np.asarray(mean)


LEAST = 1e-9  # a capacity below this is none: what is left of a link by rounding must not count as a way


@dataclass(frozen=True)
class Network:
    """Links in pairs, each followed by the way back. Place p of layer n, counted from the bottom, is node n × T + p."""

    nodes: int
    places: int
    heads: Sequence[int]  # where a link leads
    capacities: Sequence[float]
    leaving: Sequence[Sequence[int]]  # links by node

    @property
    def links(self) -> int:
        return len(self.heads) // 2

    @classmethod
    def of(cls, steps: Sequence[np.ndarray]) -> Network:
        """`steps` from the bottom up: entry (i, j) of each is the capacity from place i above to place j below."""
        places, heads, capacities = len(steps[0]), list[int](), list[float]()
        leaving: list[list[int]] = [[] for _ in range(places * (len(steps) + 1))]
        for layer, step in enumerate(steps):
            for i, j in zip(*np.nonzero(step > LEAST)):
                upper, lower = (layer + 1) * places + int(i), layer * places + int(j)
                leaving[upper].append(len(heads))
                leaving[lower].append(len(heads) + 1)
                heads += [lower, upper]
                capacities += [float(step[i, j]), 0.0]
        return cls(len(leaving), places, heads, capacities, leaving)


def maximum_flows(network: Network, place: int) -> np.ndarray:
    """Return the maximum flow from a place of the top layer to every place of the bottom one, each by itself."""
    top = network.nodes - network.places + place
    return np.array([maximum_flow(network, top, bottom) for bottom in range(network.places)])


def maximum_flow(network: Network, source: int, sink: int) -> float:
    free = list(network.capacities)
    total = 0.0
    while (levels := _levels(network, free, source, sink)) is not None:
        following = [0] * network.nodes  # of each node's links, the first that may still lead on
        while (sent := _send(network, free, levels, following, source, sink)) > 0:
            total += sent
    return total


def _levels(network: Network, free: Sequence[float], source: int, sink: int) -> list[int] | None:
    """Return each node's distance from the source in links; None if the sink cannot be reached."""
    levels = [-1] * network.nodes
    levels[source] = 0
    edge = [source]
    while edge and levels[sink] < 0:
        further = []
        for node in edge:
            for link in network.leaving[node]:
                if free[link] > LEAST and levels[network.heads[link]] < 0:
                    levels[network.heads[link]] = levels[node] + 1
                    further.append(network.heads[link])
        edge = further
    return levels if levels[sink] >= 0 else None


def _send(network: Network, free: list[float], levels: list[int], following: list[int], source: int, sink: int) -> float:
    """Along one way that goes down a level at each link; 0 where there is none left."""
    way: list[int] = []
    node = source
    while node != sink:
        links = network.leaving[node]
        while following[node] < len(links):
            link = links[following[node]]
            if free[link] > LEAST and levels[network.heads[link]] == levels[node] + 1:
                break
            following[node] += 1
        else:
            if node == source:
                return 0.0
            node = network.heads[way.pop() ^ 1]
            following[node] += 1
            continue
        way.append(link)
        node = network.heads[link]
    sent = min(free[link] for link in way)
    for link in way:
        free[link] -= sent
        free[link ^ 1] += sent
    return sent
