"""Maximum flow through layers of places, by Dinic's algorithm: shortest ways first, all of one length at a time.

Dinitz 1970. Places of one layer are linked to those of the layer below; a link carries at most its capacity. From one place of
the top layer, the most that can reach a word at the bottom is found for each word; residual links let what was sent be sent
otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    """From a place of the top layer to every place of the bottom one, each by itself."""
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
    """How many links each node is away; None where no way leads to the sink any more."""
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
