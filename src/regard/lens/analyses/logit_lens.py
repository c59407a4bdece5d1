"""Logit lens: the vectors after every block, read by the output head of the model.

Nostalgebraist 2020, "interpreting GPT: the logit lens". Residual blocks add to one stream, so what a block leaves is in the last
one's language to begin with; a pre-norm stack's own last norm comes before the head, a post-norm block has its own. Row 0 is the
embedding, before any block.

Dims: N layers and the embedding, L output positions, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.core.errors import UserError
from regard.lens.display import Cell, brief, report, visible
from regard.lens.plots import charts
from regard.lens.plots.charts import Grid
from regard.lens.result import NotebookView
from regard.lens.subject import Subject, TokenRow
from regard.model.block import Stack

ROWS = 2**24  # logits that are made at a time


@dataclass(frozen=True)
class LogitLens(NotebookView):
    FORMAT = "regard.logits.1"
    title: str
    stack: str
    tokens: tuple[str, ...]  # read at each position
    choices: tuple[tuple[str, ...], ...]  # the likeliest, by layer and position; the embedding first
    chances_NL: np.ndarray  # its probability
    final_NL: np.ndarray  # the probability, at each layer, of what the last one chooses

    def decided(self) -> list[int]:
        """Return for each position the first layer from which the choice stays that of the last."""
        same_NL = np.array([[choice == final for choice, final in zip(row, self.choices[-1])] for row in self.choices])
        stays_NL = np.logical_and.accumulate(same_NL[::-1])[::-1]
        first: list[int] = stays_NL.argmax(0).tolist()
        return first

    def lines(self) -> list[str]:
        first = self.decided()
        rows: list[list[Cell]] = []
        for place, token in enumerate(self.tokens):
            story = " → ".join(f"{visible(row[place])} {brief(p)}" for row, p in zip(self.choices, self.chances_NL[:, place]))
            rows.append([visible(token), first[place], story])
        names = f"the embedding and {len(self.choices) - 1} layers of the {self.stack}"
        told = f"what each layer would choose, {names}; decided: the layer from which the choice stays"
        return report(self.title, told, ["read", "decided", "choices from the embedding up"], rows)

    def figure(self) -> Figure:
        layers = ["embedding", *(f"layer {n}" for n in range(1, len(self.choices)))]
        caption = "the choice of every layer, from the embedding up, and its probability as shade"
        inside = [[visible(word) for word in row] for row in self.choices[::-1]]
        grid = Grid(self.chances_NL[::-1], layers[::-1], [visible(token) for token in self.tokens], inside=inside, most=1.0)
        return charts.grid(self.title, caption, grid)

    def as_dict(self) -> dict[str, Any]:
        return super().as_dict() | {"decided": self.decided()}


@torch.no_grad()
def logit_lens(subject: Subject) -> LogitLens:
    stack, side = written_side(subject)
    blocks_of(subject, stack)
    if subject.head is None or subject.outputs is None:
        raise UserError("this model says no words, so its layers cannot be read as words; give one that writes or fills in.")
    with layer_vectors(subject, stack) as layers:
        (subject.hidden or subject.forward)(1)
    last_L = subject.head(layers[-1]).argmax(-1)[0]
    choices, chances, final = [], [], []
    for x_1LD in layers:
        best_L, chance_L, final_L = _read(subject, x_1LD, last_L)
        choices.append(tuple(subject.choices(i) for i in best_L.tolist()))
        chances.append(chance_L)
        final.append(final_L)
    return LogitLens(subject.title, stack, side.tokens, tuple(choices), np.stack(chances), np.stack(final))


def written_side(subject: Subject) -> tuple[str, TokenRow]:
    """The stack that the head reads: the one behind all others."""
    stack = "decoder" if "decoder" in subject.sides else "encoder"
    return stack, subject.sides[stack]


def blocks_of(subject: Subject, stack: str) -> Stack:
    found = getattr(subject.model, stack, None)
    if not isinstance(found, Stack):
        raise UserError(f"this model has no {stack} made of blocks, so there are no layers to look at.")
    return found


@contextmanager
def layer_vectors(subject: Subject, stack: str) -> Iterator[list[Tensor]]:
    """x_BLD as they enter a stack and as each of its blocks leaves them, of the pass that is made within."""
    found = blocks_of(subject, stack)
    layers: list[Tensor] = []
    with ExitStack() as hooks:
        hooks.enter_context(found.register_forward_pre_hook(lambda module, inputs: layers.append(inputs[0])))
        for block in found.blocks:
            hooks.enter_context(block.register_forward_hook(lambda module, inputs, out: layers.append(out)))
        yield layers


def _read(subject: Subject, x_1LD: Tensor, last_L: Tensor) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """The best choice of each position, its probability, and that of the last layer's choice; some positions at a time."""
    assert subject.head is not None
    best, chance, final = [], [], []
    step, start = 1, 0
    while start < x_1LD.shape[1]:
        chances_LV = subject.head(x_1LD[:, start : start + step])[0].float().softmax(-1)
        top = chances_LV.max(-1)
        best.append(top.indices)
        chance.append(top.values)
        final.append(chances_LV.gather(-1, last_L[start : start + step, None])[:, 0])
        start, step = start + step, max(1, ROWS // chances_LV.shape[-1])
    return torch.cat(best), torch.cat(chance).cpu().numpy(), torch.cat(final).cpu().numpy()
