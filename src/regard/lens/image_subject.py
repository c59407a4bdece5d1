"""A model that classifies images as a subject: which of its tokens are patches or pixels, and what its head reads.

Two kinds of models are read, told apart by their settings. Of patches (`grid`, `extra_tokens`, `pooling`): all tokens are one
stack, `encoder`, learned ones first; a query that pools them is a side of its own. Of latents (`latents`): the sides are
`pixels`, the latents in `encoder`, and the query that asks for the answer in `decoder`.

Dims: B copies, Y X rows and columns, C colours, V classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.lens.subject import ImageTokens, Subject, TokenRow

POOLED = "pooled"


class Layout(NamedTuple):
    """One pass of a model over an image: its sides, which of them attend to each other, and which tokens are patches."""

    sides: dict[str, TokenRow]
    apart: dict[str, tuple[str, str]]
    image: ImageTokens


def cell_row(rows: int, columns: int, before: Sequence[str] = ()) -> TokenRow:
    """Return patches row by row, each called by its row and column from 1, behind marks of these names."""
    names = (*before, *(f"{row + 1},{column + 1}" for row in range(rows) for column in range(columns)))
    return _row(names, len(before))


def _row(names: Sequence[str], marks: int = 0) -> TokenRow:
    count = len(names)
    return TokenRow(tuple(names), tuple(range(count)), tuple(range(count)), tuple(n < marks for n in range(count)))


def layout_of(config: Any, image_YXC: np.ndarray) -> Layout:
    """Return the layout of an image before a model with these settings."""
    if getattr(config, "latents", 0):
        side = isqrt(config.length)
        pixels, latents = cell_row(side, side), _row([f"latent {n}" for n in range(config.latents)])
        sides = {"pixels": pixels, "encoder": latents, "decoder": _row(["answer"], 1)}
        apart = {
            name: ("encoder", "pixels") for name in config.attentions if name.startswith("encoder.") and name.endswith(".cross")
        }
        return Layout(
            sides, {**apart, "decoder.0.cross": ("decoder", "encoder")}, ImageTokens(image_YXC, side, side, stack="pixels")
        )
    extra, (rows, columns) = [f"[{name}]" for name in config.extra_tokens], config.grid
    first, sides = len(extra), {"encoder": cell_row(rows, columns, extra)}
    image = ImageTokens(image_YXC, rows, columns, first, tuple(range(first)) if config.pooling == "class" else ())
    if config.pooling != "sequence":
        return Layout(sides, {}, image)
    sides |= {"pooling": _row([POOLED], 1), "patches": sides["encoder"][first:]}
    return Layout(sides, {"pooling": ("pooling", "patches")}, image)


def image_subject(model: Any, image_YXC: np.ndarray, name: str, labels: Sequence[str], target: int | None = None) -> Subject:
    """Return the subject of an image, as bytes of the size that the model reads, scored on a label: the likeliest if None."""
    found = layout_of(model.config, image_YXC)
    image_1YXC = torch.from_numpy(np.array(image_YXC))[None].to(next(model.parameters()).device)

    def forward(copies: int) -> Tensor:
        return model(image_1YXC.expand(copies, -1, -1, -1))[:, None]

    if target is None:
        with torch.no_grad():
            target = int(forward(1).argmax())
    return Subject(
        model=model,
        title=f"{name} → {labels[target]}",
        sides=found.sides,
        forward=forward,
        targets_L=torch.tensor([target]),
        outputs=None,
        choices=labels.__getitem__,
        head=None,
        image=found.image,
        apart=found.apart,
    )
