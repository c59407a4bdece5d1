"""What position adds to the scores of every head, by distance: T5's learned buckets, ALiBi's slopes, Transformer-XL's vectors.

A distance is the position of a key minus that of the query: below 0 lies what came before. A decoder sees nothing else. T5 and
ALiBi add the same in all layers of a stack. Of Transformer-XL it is the part (v . W_R R) that reads neither query nor key; what
its attention adds has two more, which depend on them. Scores are as softmax takes them. Dims: H heads, R distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import nn

from regard.core.errors import UserError
from regard.lens.display import sentence, table
from regard.lens.plots.by_distance import Panel, drawn
from regard.lens.result import NotebookView
from regard.model.block import Stack

MOST = 512  # distance to either side


@dataclass(frozen=True)
class BiasByDistance:
    """The bias of one stack, or of one layer where each has its own."""

    attention: str
    distances: tuple[int, ...]
    by_head: tuple[tuple[float, ...], ...]

    def lines(self) -> list[str]:
        """Return a row a distance and a column a head, at powers of two."""
        at = {distance: n for n, distance in enumerate(self.distances)}
        steps = [0, *(2**n for n in range(MOST.bit_length()))]
        shown = sorted({sign * step for step in steps for sign in (-1, 1)} & set(at))
        header = ["distance", *(f"head {n}" for n in range(len(self.by_head)))]
        return table(header, [[distance, *(row[at[distance]] for row in self.by_head)] for distance in shown])


@dataclass(frozen=True)
class AttentionBias(NotebookView):
    FORMAT = "regard.bias.1"
    title: str
    biases: tuple[BiasByDistance, ...]

    def lines(self) -> list[str]:
        told = [sentence(f"{self.title}: what position adds to scores, by distance (key - query)")]
        for bias in self.biases:
            told += ["", bias.attention, *bias.lines()]
        return told

    def figure(self) -> Figure:
        caption = "what position adds to the scores of each head, by distance: left of 0 what came before the query"
        return drawn(self.title, caption, [Panel(one.attention, one.distances, one.by_head) for one in self.biases])


def biases_of(model: nn.Module, title: str) -> AttentionBias:
    """Return the biases of all stacks of a model; refuse one whose attention adds none."""
    found = [bias for stack in model.modules() if isinstance(stack, Stack) for bias in _of_stack(stack)]
    if not found:
        raise UserError(
            "this model adds no bias by distance to its scores, so there is nothing to show; models with "
            "model.position=relative, alibi or transformer-xl do."
        )
    return AttentionBias(title, tuple(found))


@torch.no_grad()
def _of_stack(stack: Stack) -> Sequence[BiasByDistance]:
    if stack.position is None:
        return []
    names = [block.self_attention.name for block in stack.blocks]
    side, most = names[0].partition(".")[0], min(MOST, stack.position.farthest)
    distances = range(-most, 1 if side == "decoder" else most + 1)
    device = next(stack.parameters()).device
    found = stack.position.by_distance(torch.tensor(distances, device=device))
    shared = len(found) == 1 < len(names)
    return [
        BiasByDistance(f"{side}, all layers" if shared else name, tuple(distances), tuple(map(tuple, bias_HR.float().tolist())))
        for name, bias_HR in zip(names, found)
    ]
