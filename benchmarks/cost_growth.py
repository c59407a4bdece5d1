"""What a layer costs as sequences grow: self-attention, recurrence, convolution and a window, beside the lecture's table.

    python -m benchmarks.cost_growth

Vaswani et al. 2017, table 1: operations for n tokens of width d are n²d, nd², knd² and rnd. Time is measured against n at one
width and fitted as n to some power over the longest lengths, where the term that grows fastest has won. The table counts what
mixes tokens, so attention is measured without its projections.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.attention import CPU, CUDA, RADIUS, SOFTMAX, Scale, Trial, heads_of, passes
from benchmarks.measure import Curves, Line, Row, Table, alternate, peak_bytes, row, write
from regard.model.attention import attend
from regard.model.visibility import full, window

KERNEL = 3
FITTED = 3  # lengths, from the longest down
BATCH = 32 if torch.cuda.is_available() else 1  # so many sequences at once that work, not launching it, takes a GPU's time
WAYS = ("forward", "forward + backward")


class Stated(NamedTuple):
    """The lecture's row T7."""

    operations: str
    exponent: int
    sequential: str
    longest_path: str


LECTURE = {
    "self-attention": Stated("n²d", 2, "1", "1"),
    "recurrent": Stated("nd²", 1, "n", "n"),
    "convolution": Stated("knd²", 1, "1", "log_k n"),
    "restricted": Stated("rnd", 1, "1", "n/r"),
}


def scale_here() -> Scale:
    if torch.cuda.is_available():
        return dataclasses.replace(CUDA, heads=8, lengths=tuple(2**n for n in range(10, 16)))  # cuDNN counts no 65,536 steps
    return dataclasses.replace(CPU, heads=2, lengths=tuple(2**n for n in range(8, 14)))


def layers(scale: Scale, length: int) -> dict[str, dict[str, Callable[[], object]]]:
    """Every layer's two passes."""
    place: dict[str, Any] = {"device": scale.device, "dtype": scale.dtype}
    x_LBD = torch.randn(length, BATCH, scale.width, requires_grad=True, **place)
    recurrent = nn.LSTM(scale.width, scale.width, **place)
    convolution = nn.Conv1d(scale.width, scale.width, KERNEL, padding=KERNEL // 2, **place)
    q, k, v = heads = heads_of(scale, BATCH, length)
    everybody, near = (pattern.over(length, length, device=scale.device) for pattern in (full, window(RADIUS)))
    outputs: dict[str, Trial] = {
        "self-attention": (partial(attend, None, "benchmark", SOFTMAX, q, k, v, everybody, None, 0.0), heads),
        "recurrent": (lambda: recurrent(x_LBD)[0], [x_LBD, *recurrent.parameters()]),
        "convolution": (lambda: convolution(x_LBD.permute(1, 2, 0)), [x_LBD, *convolution.parameters()]),
        "restricted": (partial(attend, None, "benchmark", SOFTMAX, q, k, v, near, None, 0.0), heads),
    }
    return {name: passes(output, inputs) for name, (output, inputs) in outputs.items()}


def measured(scale: Scale) -> dict[str, list[Row]]:
    """For both passes a row for each length."""
    rows: dict[str, list[Row]] = {way: [] for way in WAYS}
    for length in scale.lengths:
        runs = layers(scale, length)
        for way in WAYS:
            contenders = {name: run[way] for name, run in runs.items()}
            seconds = alternate(contenders, scale.rounds, warm_up=2)
            peaks = {name: peak_bytes(run) for name, run in contenders.items()}
            rows[way].append(row(f"{length:,}, {way}", "tokens/s", BATCH * length, seconds, pairs=(), peaks=peaks))
            print(f"{length:,}, {way}: " + ", ".join(f"{name} {min(each):.2g} s" for name, each in seconds.items()), flush=True)
    return rows


def milliseconds(rows: Sequence[Row], name: str, lengths: Sequence[int]) -> list[float]:
    return [1000 * BATCH * length / each["systems"][name]["median"] for length, each in zip(lengths, rows)]


def megabytes(rows: Sequence[Row], name: str) -> list[float]:
    return [each["systems"][name]["peak_bytes"] / 1e6 for each in rows]


def exponent(lengths: Sequence[float], values: Sequence[float]) -> float:
    """p of values = c lengths^p, by least squares on logarithms of the longest few."""
    return float(np.polyfit(np.log(lengths[-FITTED:]), np.log(values[-FITTED:]), 1)[0])


def growth(quantities: Mapping[str, Mapping[str, list[float]]], lengths: Sequence[int]) -> Table:
    """The lecture's table with what was measured beside it; quantities are by name, then layer."""
    rows = [
        [name, stated.operations, f"n^{stated.exponent}"]
        + [f"n^{exponent(lengths, values[name]):.2f}" for values in quantities.values()]
        + [stated.sequential, stated.longest_path]
        for name, stated in LECTURE.items()
    ]
    columns = ["layer", "operations", "the lecture's time", *quantities, "sequential operations", "longest path"]
    title = f"Growth with n, fitted over {lengths[-FITTED]:,} to {lengths[-1]:,} tokens, beside the lecture's table"
    return {"title": title, "columns": columns, "rows": rows}


def curves(title: str, unit: str, values: Mapping[str, list[float]], lengths: Sequence[int]) -> Curves:
    lines: dict[str, Line] = {
        f"{name}, n^{exponent(lengths, y):.2f}": {"x": [float(n) for n in lengths], "y": y} for name, y in values.items()
    }
    return {"title": title, "x": "length n", "y": unit, "lines": lines}


def main() -> None:
    torch.manual_seed(0)
    scale = scale_here()
    rows = measured(scale)
    times = {way: {name: milliseconds(rows[way], name, scale.lengths) for name in LECTURE} for way in WAYS}
    memory = {name: megabytes(rows[WAYS[1]], name) for name in LECTURE}
    quantities = {**{f"time, {way}": values for way, values in times.items()}, f"memory, {WAYS[1]}": memory}
    table = growth(quantities, scale.lengths)
    drawn = [
        curves(name, "MB" if name.startswith("memory") else "ms", values, scale.lengths) for name, values in quantities.items()
    ]
    setting = (
        f"{BATCH} × n tokens, width {scale.width} everywhere ({scale.heads} heads), {scale.precision}. "
        f"Attention is our seam without projections, recurrent is nn.LSTM, convolution nn.Conv1d of kernel width k = {KERNEL}, "
        f"restricted is our window({RADIUS}), r = {2 * RADIUS + 1}, by blocks where texts are long. "
        "The fused kernel never holds the n² scores, so the memory of self-attention grows with n alone."
    )
    every = [each for pair in zip(*rows.values()) for each in pair]
    path = write(
        "cost_growth", title="Cost against length", setting=setting, rows=every, versions={}, tables=[table], curves=drawn
    )
    print("\n".join(" | ".join(cells) for cells in [table["columns"], *table["rows"]]))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
