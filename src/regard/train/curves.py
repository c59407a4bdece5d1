"""curves.png: training and validation loss and the learning rate against the step."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.files import write_whole
from regard.train.finite import finite_number

INK, TRAIN, VALID, RATE = "#333a45", "#9aa7b8", "#c2410c", "#0f766e"


def draw_curves(records: Sequence[dict[str, Any]], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # half a second, for who trains alone
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes, rates = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    _line(axes, records, "loss", TRAIN, "training (smoothed)")
    _line(axes, records, "valid_nll", VALID, "validation", marker="o")
    _line(rates, records, "learning_rate", RATE, None)
    axes.set_ylabel("loss per token")
    rates.set_ylabel("rate")
    rates.set_xlabel("step")
    rates.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    if axes.get_lines():
        axes.legend(frameon=False)
    for each in (axes, rates):
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(colors=INK)
        each.grid(alpha=0.15)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=130)
    write_whole(path, drawn.getvalue())


def _line(axes: Any, records: Sequence[dict[str, Any]], key: str, colour: str, label: str | None, marker: str = "") -> None:
    points = [(r["step"], number) for r in records if (number := finite_number(r.get(key))) is not None]
    if points:
        axes.plot(*zip(*points), color=colour, label=label, marker=marker, markersize=3, linewidth=1.4)
