"""Attention weights of one text: tokens on two sides and a weight for every pair; as JSON, and read back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.core.errors import UserError
from regard.core.files import GIB, read_bounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLERANCE = 1e-3
FORMAT = "regard.alignment.1"
LARGEST = GIB  # of what is read back: every head of every layer between two long texts


@dataclass(frozen=True, eq=False)
class Alignment:
    """Attention of every layer and head between one row of queries and one row of keys.

    `weights` has the shape (layers, heads, queries, keys); each row over the keys sums to one. The array is copied and
    made read-only, so an alignment never changes after it was checked. A `note` says what else was done to the weights; with one,
    rows need not sum to one. Where groups of heads share keys and values, `kv_heads` says how many such groups there are.
    """

    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: np.ndarray
    layers: tuple[str, ...]
    note: str = ""
    kv_heads: int = 0  # 0: as many as heads

    def __post_init__(self) -> None:
        own = np.array(self.weights, dtype=np.float32)
        own.setflags(write=False)
        object.__setattr__(self, "weights", own)
        for side in ("queries", "keys", "layers"):
            object.__setattr__(self, side, tuple(getattr(self, side)))
        self._check_shape()
        self._check_rows()

    @property
    def heads(self) -> int:
        return self.weights.shape[1]

    def mean(self) -> np.ndarray:
        """The average over all layers and heads, (queries, keys)."""
        return self.weights.mean(axis=(0, 1))

    def of(self, layer: int | str, head: int) -> np.ndarray:
        """One head of one layer, (queries, keys); the layer by its place or by its name."""
        if isinstance(layer, str):
            if layer not in self.layers:
                raise ValueError(f"no layer is called {layer!r}; there are {', '.join(self.layers)}.")
            layer = self.layers.index(layer)
        if not (0 <= layer < len(self.layers) and 0 <= head < self.heads):
            raise ValueError(
                f"layer {layer}, head {head} is not there: layers run from 0 to {len(self.layers) - 1} "
                f"and heads from 0 to {self.heads - 1}."
            )
        return self.weights[layer, head]

    def lines(self, width: int = 100) -> list[str]:
        """Return lines for a terminal of `width` columns."""
        from regard.lens.plots.alignment import text_lines  # imported here and below: prediction does not draw

        return text_lines(self, width)

    def figure(self) -> Figure:
        from regard.lens.plots.alignment import drawn

        return drawn(self)

    def page(self) -> bytes:
        from regard.lens.analyses.weights import alignment_page

        return alignment_page(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, which holds them exactly: nine digits name a float32 and no other."""
        rounded = [float(f"{weight:.9g}") for weight in self.weights.ravel().tolist()]
        names = {"title": self.title, "layers": self.layers, "queries": self.queries, "keys": self.keys}
        return {"format": FORMAT, **names, "weights": np.array(rounded).reshape(self.weights.shape).tolist()}

    def _check_shape(self) -> None:
        if self.weights.ndim != 4 or 0 in self.weights.shape:
            raise ValueError(
                f"weights have the shape {self.weights.shape}; expected (layers, heads, queries, keys), none of them zero."
            )
        layers, _, queries, keys = self.weights.shape
        named = (len(self.layers), len(self.queries), len(self.keys))
        if named != (layers, queries, keys):
            raise ValueError(
                f"weights are for {layers} layers, {queries} queries and {keys} keys, but the names are for "
                f"{named[0]} layers, {named[1]} queries and {named[2]} keys."
            )

    def _check_rows(self) -> None:
        # written so that NaN fails too: every comparison with NaN is false
        good = (self.weights >= 0).all(axis=-1)
        if not self.note:
            good &= np.abs(self.weights.sum(axis=-1) - 1) <= TOLERANCE
        if not good.all():
            layer, head, query = np.argwhere(~good)[0]
            row = self.weights[layer, head, query]
            raise ValueError(
                f"the weights of query {query} ({self.queries[query]!r}) in {self.layers[layer]}, head {head}, sum to "
                f"{row.sum():.4g} with a least weight of {row.min():.4g}; expected weights from zero up that sum to one. "
                "Leave out padded or fully masked queries."
            )


def read(path: Path) -> Alignment:
    """Return the alignment that was saved as JSON, every weight as it was."""
    path = Path(path)
    try:
        found = json.loads(read_bounded(path, LARGEST).decode())
    except (ValueError, RecursionError) as problem:  # not UTF-8, not JSON, or nested to no end
        raise UserError(f"{path} is not JSON: {problem}. Give a file written with the ending .json.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(f'{path} is JSON, but has no "format": "{FORMAT}". Give a file that Regard wrote.')
    try:
        return _alignment(found)
    except KeyError as missing:
        raise UserError(f"{path} holds no alignment: it has no {missing}.") from None
    except (TypeError, ValueError) as problem:
        raise UserError(f"{path} holds no alignment: {problem}") from None


def _alignment(found: dict[str, Any]) -> Alignment:
    names = [found[side] for side in ("queries", "keys", "layers")]
    if not all(isinstance(side, list) and all(isinstance(name, str) for name in side) for side in names):
        raise ValueError("queries, keys and layers must be lists of strings.")
    if not isinstance(found["title"], str):
        raise ValueError("the title must be a string.")
    queries, keys, layers = map(tuple, names)
    return Alignment(found["title"], queries, keys, np.asarray(found["weights"], dtype=np.float32), layers)
