"""performer-pytorch (PyPI) with our directions: its causal attention, as it runs where its CUDA extension is not built.

It computes what ours does but for 1e-4, which it adds to features after dividing them by the largest of the whole sequence. By
its formulas that is little for queries and keys of length 2 (5e-4 of the answer), and most of the answer for those of length 8,
as unit variance makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version as installed
from importlib.util import find_spec
from io import StringIO

from torch import Tensor

NAME = "performer-pytorch"
Attends = Callable[[Tensor, Tensor, Tensor], Tensor]


def ready() -> bool:
    return find_spec("performer_pytorch") is not None


def remark() -> str:
    """For the setting of a result, and printed where somebody may be waiting for it in vain."""
    if ready():
        return f"{NAME} has the same directions, and runs in the same process."
    left_out = f"{NAME} was left out: it is not installed ('make bench' installs it)."
    print(left_out)
    return left_out


def version() -> dict[str, str]:
    return {NAME: installed(NAME)} if ready() else {}


def causal(directions_FK: Tensor) -> Attends:
    from performer_pytorch import FastAttention

    features, head_width = directions_FK.shape
    with redirect_stdout(StringIO()):  # it tells that it found no CUDA extension
        attention = FastAttention(head_width, nb_features=features, causal=True).to(directions_FK)
    attention.projection_matrix.copy_(directions_FK)
    return attention
