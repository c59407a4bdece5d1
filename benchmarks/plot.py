"""The pictures of docs/performance.md, as SVG: ratios as bars from 1×, and costs against length on logarithmic axes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.measure import Curves, Row

INK, MUTED, GRID = "#1b2430", "#66717e", "#dfe3e8"
AHEAD, BEHIND = "#0f766e", "#c2410c"
COLOURS = ("#0f766e", "#c2410c", "#4a55a8", "#b08900", "#8c2d6b", "#5b6b7a")
BAR, LETTER, SMALL = 0.3, 10.0, 9.0  # inches for a bar; points


def by_ratio(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The cases' values of every ratio."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row["ratios"].items():
            found.setdefault(name, []).append(value)
    return found


def ratios(results: Sequence[Mapping[str, Any]]) -> str:
    """A group of bars for every race that has ratios, a bar for each: its geometric mean, with the cases as dots."""
    return _svg(lambda: _ratios(results))


def curves(panels: Sequence[Curves]) -> str:
    """Panels in pairs."""
    return _svg(lambda: _curves(panels))


def _svg(draw: Callable[[], Figure]) -> str:
    file = StringIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a person's own style must not restyle the picture; the context gives it back
        matplotlib.rcParams["svg.fonttype"] = "none"  # words stay words
        matplotlib.rcParams["svg.hashsalt"] = "regard"  # the same names inside the file every time
        draw().savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _ratios(results: Sequence[Mapping[str, Any]]) -> Figure:
    groups = [(result, by_ratio(result["rows"])) for result in results if "rows" in result]
    groups = [(result, found) for result, found in groups if found]
    height = BAR * sum(len(found) + 1.6 for _, found in groups) + 0.7
    figure = Figure(figsize=(9, height), facecolor="white")
    axes = figure.add_axes((0.36, 0.5 / height, 0.57, 1 - 0.6 / height))
    place = 0.0
    for result, found in groups:
        _heading(axes, place, f"{result['title']}, {result['device']}")
        for name, values in found.items():
            place += 1
            _bar(axes, place, name, values)
        place += 1.6
    axes.set_ylim(place - 0.9, -0.7)
    _ratio_axis(axes, [value for _, found in groups for values in found.values() for value in values])
    return figure


def _heading(axes: Axes, place: float, text: str) -> None:
    over_the_grid = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    axes.annotate(
        text, (-0.62, place), xycoords=("axes fraction", "data"), size=LETTER, color=INK, weight="bold", va="center",
        bbox=over_the_grid, zorder=5,
    )  # fmt: skip


def _bar(axes: Axes, place: float, name: str, values: Sequence[float]) -> None:
    mean = statistics.geometric_mean(values)
    colour = AHEAD if mean >= 0.995 else BEHIND
    axes.barh(place, mean - 1, left=1, height=0.62, color=colour, alpha=0.85, zorder=2)
    if len(values) > 1:
        axes.scatter(values, [place] * len(values), s=16, color=INK, alpha=0.8, edgecolors="white", linewidths=0.5, zorder=3)
    axes.annotate(name, (-0.02, place), xycoords=("axes fraction", "data"), size=SMALL, color=INK, ha="right", va="center")
    axes.annotate(f"{mean:.2f}×", (1.015, place), xycoords=("axes fraction", "data"), size=SMALL, color=colour, va="center")


def _ratio_axis(axes: Axes, values: Sequence[float]) -> None:
    axes.set_xscale("log")
    steps = [step * 10**power for power in range(-2, 3) for step in (1, 1.5, 2, 3, 5, 7)]
    axes.set_xticks(steps, [f"{step:g}×" for step in steps], minor=False)
    axes.set_xlim(min([0.8, *(value / 1.15 for value in values)]), max([2.0, *(value * 1.15 for value in values)]))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color=INK, linewidth=1.2, zorder=4)
    axes.set_yticks([])
    _plain(axes)
    axes.grid(axis="x", color=GRID, linewidth=0.8, zorder=0)


def _curves(panels: Sequence[Curves]) -> Figure:
    lines = (len(panels) + 1) // 2
    figure = Figure(figsize=(9.2, 4 * lines), facecolor="white", layout="constrained")
    for place, panel in enumerate(panels):
        _panel(figure.add_subplot(lines, 2, place + 1), panel)
    return figure


def _panel(axes: Axes, panel: Curves) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for (name, line), colour in zip(panel["lines"].items(), COLOURS):
        axes.plot(line["x"], line["y"], color=colour, marker="o", markersize=4, linewidth=1.6, label=name)
    axes.set_ylim(top=axes.get_ylim()[1] * 4)  # for the legend
    axes.set_title(panel["title"], loc="left", size=LETTER, color=INK, weight="bold")
    axes.set_xlabel(panel["x"], size=SMALL, color=MUTED)
    axes.set_ylabel(panel["y"], size=SMALL, color=MUTED)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK, handlelength=1.4, loc="upper left")
    _plain(axes)
    axes.grid(color=GRID, linewidth=0.8)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=SMALL, length=0, which="both")
    axes.set_axisbelow(True)
