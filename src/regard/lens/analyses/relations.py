"""Heads and grammar: for each dependency relation, how often a head attends from a word to the word it depends on.

Clark et al. 2019, *What does BERT look at?*, section 4.2. Weights are taken by words (see `merged.py`), marks and the word
itself are left out, and of the words that remain the one with most weight is the head's guess. It is counted in both
directions: from the dependent to its head, and from the head to its dependent. Some relations are easy, for a determiner mostly
stands right before its noun, so each is held against the best fixed offset, "the word two to the right", and against the same
model with random weights. Heads and offsets are chosen on every other sentence and scored on the rest, so that the best of many
is not best by luck.

Dims: H heads of all layers, L tokens, W words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.weights import merge_keys, merge_queries
from regard.lens.display import table
from regard.lens.plots.charts import Bar, bars
from regard.lens.result import NotebookView
from regard.lens.subject import Subject

OFFSETS = [offset for offset in range(-5, 6) if offset]
DIRECTIONS = ("dependent → head", "head → dependent")
CHOSEN, SCORED = 0, 1  # halves of the sentences
LEAST = 10  # times that a relation must occur in each half


class Tree(NamedTuple):
    """A subject whose tokens belong to words of a dependency tree."""

    subject: Subject
    stack: str  # whose self-attention is looked at
    words: tuple[int, ...]  # of each token; -1 for marks
    heads: tuple[int, ...]  # of each word; -1 for the root
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Relation:
    """The best head for one relation, chosen on one half of the sentences; all shares are of the other half."""

    name: str
    direction: str
    attention: str
    head: int
    accuracy: float
    offset: int
    offset_accuracy: float
    random: float | None  # the best head's of the same model with random weights
    count: int


@dataclass(frozen=True)
class Relations(NotebookView):
    FORMAT = "regard.relations.1"
    title: str
    sentences: int
    relations: tuple[Relation, ...]

    def lines(self) -> list[str]:
        header = ["relation", "of", "direction", "head", "finds it", "offset", "finds it", "random model"]
        rows = [
            [r.name, r.count, r.direction, f"{r.attention} {r.head}", r.accuracy, f"{r.offset:+d}", r.offset_accuracy, r.random]
            for r in self.relations
        ]
        ahead = f"{sum(r.accuracy > r.offset_accuracy for r in self.relations)} of {len(self.relations)}"
        told = f"heads and offsets chosen on every other sentence, scored on the rest; ahead of its offset: {ahead}"
        return [f"{self.title}: {self.sentences:,} sentences", told, "", *table(header, rows)]

    def figure(self) -> Figure:
        rows = [
            (f"{r.name}, {r.attention} {r.head}", [r.accuracy, r.offset_accuracy, float("nan") if r.random is None else r.random])
            for r in self.relations
        ]
        names = ("best head", "best fixed offset", "best head of random weights")
        caption = "How often the word that a head looks at most is the one that the grammar names."
        return bars(self.title, caption, names, [Bar(*row) for row in rows])


@dataclass
class _Hits:
    """Counts of one relation: how often it was found, by half, direction and head or offset."""

    heads: np.ndarray
    offsets: np.ndarray = field(default_factory=lambda: np.zeros((2, 2, len(OFFSETS))))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(2))


def relation_scores(title: str, trees: Sequence[Tree], random: Iterable[Tree] = ()) -> Relations:
    """Score relations on a model's trees, and on the same trees read by a model with random weights."""
    names, hits = _counted(trees)
    _, other = _counted(random)
    found = []
    for relation, hit in hits.items():
        if min(hit.counts) >= LEAST:
            best = other[relation].heads if relation in other else None
            found.append(_best(relation, names, hit, best))
    if not found:
        raise UserError(f"no relation occurs {LEAST} times in each half of {len(trees)} sentences; give more of them.")
    found.sort(key=lambda relation: -relation.count)
    return Relations(title, len(trees), tuple(found))


def _best(relation: str, names: Sequence[tuple[str, int]], hit: _Hits, random: np.ndarray | None) -> Relation:
    direction, head = np.unravel_index(hit.heads[CHOSEN].argmax(), hit.heads[CHOSEN].shape)
    offset = int(hit.offsets[CHOSEN, direction].argmax())
    count = hit.counts[SCORED]
    of_random = None
    if random is not None:
        of_random = float(random[SCORED, direction, random[CHOSEN, direction].argmax()] / count)
    return Relation(
        relation,
        DIRECTIONS[direction],
        *names[head],
        float(hit.heads[SCORED, direction, head] / count),
        OFFSETS[offset],
        float(hit.offsets[SCORED, direction, offset] / count),
        of_random,
        int(count),
    )


def _counted(trees: Iterable[Tree]) -> tuple[list[tuple[str, int]], dict[str, _Hits]]:
    names: list[tuple[str, int]] = []
    hits: dict[str, _Hits] = {}
    for number, tree in enumerate(trees):
        names, guesses_HW = _guesses(tree)
        half = number % 2
        for dependent, (head, relation) in enumerate(zip(tree.heads, tree.relations)):
            if head < 0 or not {dependent, head} <= set(tree.words):
                continue
            hit = hits.setdefault(relation, _Hits(np.zeros((2, 2, len(names)))))
            hit.counts[half] += 1
            for direction, (start, aim) in enumerate(((dependent, head), (head, dependent))):
                hit.heads[half, direction] += guesses_HW[:, start] == aim
                hit.offsets[half, direction] += np.array(OFFSETS) == aim - start
    return names, hits


@torch.no_grad()
def _guesses(tree: Tree) -> tuple[list[tuple[str, int]], np.ndarray]:
    """Return for each head and word the other word with the largest weight; words without a token are never guessed."""
    seen = tree.subject.record()
    words_L = torch.tensor(tree.words)
    text_L = words_L >= 0
    there_W, compact_L = words_L[text_L].unique(return_inverse=True)
    names: list[tuple[str, int]] = []
    rows: list[np.ndarray] = []
    for name in seen:
        if name != f"{tree.stack}.{name.split('.')[1]}.self":
            continue
        weights_HLL = seen[name].weights()[0].cpu()[:, text_L][:, :, text_L]
        weights_HWW = merge_queries(merge_keys(weights_HLL, compact_L), compact_L)
        weights_HWW.diagonal(dim1=1, dim2=2).fill_(-1)
        guesses = np.full((len(weights_HWW), len(tree.heads)), -1)
        guesses[:, there_W.numpy()] = there_W[weights_HWW.argmax(-1)].numpy()
        names += [(name, head) for head in range(len(weights_HWW))]
        rows.append(guesses)
    return names, np.concatenate(rows)
