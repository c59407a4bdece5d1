"""Rank collapse: without skip connections and feed-forward layers, attention alone makes all tokens the same, ever faster.

Dong, Cordonnier & Loukas 2021. How far tokens X are from being one and the same vector is the size of what is left when the
nearest such matrix is taken away, res(X) = X - 1 x^T, beside the size of X. Pure attention cubes it at every layer (theorem 2.2),
so it falls faster than geometrically; skip connections alone prevent that. Measured at every layer, with each on and off.

Differs from the paper in the norm: Frobenius', which the mean over tokens minimises, in place of sqrt(|X|_1 |X|_inf).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.lens.analyses.logit_lens import layer_vectors
from regard.lens.display import report
from regard.lens.plots import charts
from regard.lens.plots.charts import Curve
from regard.lens.result import NotebookView
from regard.lens.subject import Subject
from regard.model.block import Block, Residual

VARIANTS: Mapping[str, tuple[bool, bool]] = {  # skip connections, feed-forward
    "whole": (True, True),
    "no feed-forward": (True, False),
    "no skips": (False, True),
    "attention alone": (False, False),
}


@dataclass(frozen=True)
class RankCollapse(NotebookView):
    """Distance to rank one at the embedding and after every layer, by variant and, if there are two, by stack."""

    FORMAT = "regard.rank.1"
    title: str
    distances: Mapping[str, tuple[float, ...]]

    def lines(self) -> list[str]:
        depth = max(map(len, self.distances.values()))
        rows = [[name, *(f"{d:.1e}" for d in row), *([""] * (depth - len(row)))] for name, row in self.distances.items()]
        header = ["model", "embedding", *(f"layer {n}" for n in range(1, depth))]
        told = "distance to rank one: 0 is all tokens alike, 1 nothing in common"
        return report(self.title, told, header, rows)

    def figure(self) -> Figure:
        found = {name: Curve(range(len(row)), row) for name, row in self.distances.items()}
        caption = "how different tokens are, layer by layer: attention alone makes them all alike"
        return charts.curves(self.title, caption, found, "layer", "distance to rank one", logarithmic=True)


def rank_collapse(subject: Subject) -> RankCollapse:
    found: dict[str, tuple[float, ...]] = {}
    for stack in subject.sides:
        for variant, (skips, feedforward) in VARIANTS.items():
            with (
                torch.no_grad(),
                switched(subject.model, skips=skips, feedforward=feedforward),
                layer_vectors(subject, stack) as layers,
            ):
                (subject.hidden or subject.forward)(1)
            name = variant if len(subject.sides) == 1 else f"{stack}, {variant}"
            found[name] = tuple(distance(x_1LD[0]) for x_1LD in layers)
    return RankCollapse(subject.title, found)


def distance(x_LD: Tensor) -> float:
    """‖X - 1 x^T‖ / ‖X‖ with the nearest x."""
    x_LD = x_LD.double()
    return float((x_LD - x_LD.mean(0)).norm() / x_LD.norm().clamp(min=1e-300))


@contextmanager
def switched(model: nn.Module, *, skips: bool, feedforward: bool) -> Iterator[None]:
    """The model's blocks without their skip connections, without their feed-forward layers, or both, inside the with-block."""
    with ExitStack() as hooks:
        for block in (module for module in model.modules() if isinstance(module, Block)):
            if not feedforward:
                hooks.enter_context(block["ffn"].register_forward_hook(lambda residual, inputs, out: inputs[0]))
            for name, residual in block.named_children():
                if not skips and (feedforward or name != "ffn"):
                    hooks.enter_context(residual.register_forward_hook(_without_skip))
        yield


def _without_skip(residual: Residual, inputs: tuple[Any, ...], out: Tensor) -> Tensor:
    """Return what `Residual` would compute without x, from the same input."""
    x_BLD, *rest = inputs
    if residual.pre:
        return residual.dropout(residual.layer(residual.norm(x_BLD), *rest))
    return residual.norm(residual.dropout(residual.layer(x_BLD, *rest)))
