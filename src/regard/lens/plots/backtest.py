"""Draw a backtest: forecasts of the past, end to end, over what happened; below them, errors by the number of steps ahead.

Dims: T times, H horizon.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from regard.lens.display import drawable
from regard.lens.plots.charts import COLOURS, GRID
from regard.lens.plots.render import INK, MUTED

MOST_PANELS = 4
MARKED = 16  # forecasts, up to which the beginning of each is marked
WIDE, TALL, BELOW, ABOVE = 9.6, 1.75, 2.5, 0.65  # inches
MODEL = COLOURS[1]
SIMPLE = (COLOURS[5], COLOURS[2], COLOURS[0], COLOURS[3])


class Segment(NamedTuple):
    """A forecast: the time that it begins at, counted from the first that is drawn, and its values."""

    begin: int
    values_H: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None


class Rolling(NamedTuple):
    name: str
    values_T: np.ndarray  # what happened
    dates: np.ndarray | None
    segments: Sequence[Segment]


class Steps(NamedTuple):
    """Mean absolute errors by step ahead, "model" first; the share inside the interval by step, and what it should be."""

    errors: dict[str, np.ndarray]
    coverage_H: np.ndarray | None
    meant: float
    windows: int


def draw_backtest(shown: Sequence[Rolling], steps: Steps, share: str = "") -> bytes:
    """Return a picture of the first series and of the errors as a PNG file."""
    panels = shown[:MOST_PANELS]
    height = ABOVE + TALL * len(panels) + BELOW
    figure = Figure(figsize=(WIDE, height), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    parts: Any = figure.subfigures(2, 1, height_ratios=[ABOVE + TALL * len(panels), BELOW])
    top, bottom = parts
    horizon = len(steps.errors["model"])
    more = f"; the first {len(panels)} of {len(shown)} channels" if len(shown) > len(panels) else ""
    title = f"Forecasts of {horizon:,} times each, one after the other, over what happened{more}"
    top.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    rows = top.subplots(len(panels), 1, squeeze=False, sharex=len({len(one.values_T) for one in panels}) == 1)
    for axes, one in zip(rows[:, 0], panels):
        _draw_rolling(axes, one, share)
    rows[0, 0].legend(fontsize=7.5, frameon=False, loc="lower right", ncols=3, bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
    widths = [2] if steps.coverage_H is None else [2, 1]
    below = bottom.subplots(1, len(widths), squeeze=False, width_ratios=widths)
    _draw_errors(below[0, 0], steps)
    if steps.coverage_H is not None:
        _draw_coverage(below[0, 1], steps, share)
    file = BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _draw_rolling(axes: Axes, one: Rolling, share: str) -> None:
    times = np.arange(len(one.values_T)) if one.dates is None else one.dates.astype("datetime64[s]")
    axes.plot(times, one.values_T, color=INK, linewidth=0.9, label="what happened", zorder=3)
    apart = len(one.segments) <= MARKED
    for n, segment in enumerate(one.segments if apart else [_joined(one.segments)]):
        at = times[segment.begin : segment.begin + len(segment.values_H)]
        axes.plot(at, segment.values_H, color=MODEL, linewidth=1.3, zorder=4, label="" if n else "forecast")
        if apart:
            axes.axvline(at[0], color=GRID, linewidth=0.8, zorder=1)
        if segment.interval is not None:
            label = "" if n else f"{share} interval"
            axes.fill_between(at, *segment.interval, color=MODEL, alpha=0.2, linewidth=0, label=label, zorder=2)
    _plain(axes)
    axes.set_ylabel(drawable(one.name, 20), fontsize=8, color=INK, parse_math=False)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.margins(x=0.005)
    if one.dates is not None:
        locator = AutoDateLocator(maxticks=9)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        axes.xaxis.get_offset_text().set(fontsize=7, color=MUTED)


def _joined(segments: Sequence[Segment]) -> Segment:
    """Return many short forecasts as one line."""
    intervals = [segment.interval for segment in segments if segment.interval is not None]
    values = np.concatenate([segment.values_H for segment in segments])
    if not intervals:
        return Segment(segments[0].begin, values, None)
    low, high = (np.concatenate(side) for side in zip(*intervals))
    return Segment(segments[0].begin, values, (low, high))


def _draw_errors(axes: Axes, steps: Steps) -> None:
    ahead, ends = np.arange(1, len(steps.errors["model"]) + 1), []
    for n, (name, errors_H) in enumerate(steps.errors.items()):
        colour = MODEL if name == "model" else SIMPLE[(n - 1) % len(SIMPLE)]
        width = 1.8 if name == "model" else 1.0
        axes.plot(ahead, errors_H, color=colour, linewidth=width, zorder=3 - (n > 0), marker="o" if len(ahead) == 1 else None)
        ends.append((errors_H[-1], name, colour))
    _plain(axes, grid=True)
    axes.set_ylim(bottom=0)
    low, high = axes.get_ylim()
    least, at = (high - low) * 0.075, -np.inf
    for value, name, colour in sorted(ends):  # names beside the ends of their curves, apart from each other
        at = max(value, at + least)
        axes.annotate(name, (ahead[-1], at), xytext=(5, 0), textcoords="offset points", fontsize=7.5, color=colour, va="center")
    axes.set_title(f"Mean absolute error, {steps.windows:,} windows", fontsize=8.5, color=INK, loc="left")
    axes.set_xlabel("steps ahead", fontsize=8, color=MUTED)
    _steps_axis(axes, len(ahead), 8)


def _draw_coverage(axes: Axes, steps: Steps, share: str) -> None:
    assert steps.coverage_H is not None
    ahead = np.arange(1, len(steps.coverage_H) + 1)
    axes.axhline(steps.meant, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.plot(ahead, steps.coverage_H, color=MODEL, linewidth=1.8, marker="o" if len(ahead) == 1 else None)
    _plain(axes, grid=True)
    axes.set_ylim(min(0.5, max(0.0, float(steps.coverage_H.min()) - 0.05)), 1.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_title(f"Values inside the {share} interval", fontsize=8.5, color=INK, loc="left")
    axes.set_xlabel("steps ahead", fontsize=8, color=MUTED)
    _steps_axis(axes, len(ahead), 5)


def _steps_axis(axes: Axes, horizon: int, most: int) -> None:
    axes.set_xlim(1 - 0.02 * horizon, horizon + 0.02 * horizon)
    every = next(step for step in (1, 2, 3, 4, 6, 12, 24, 48, 96, 120, 240, 480, 10**6) if horizon // step <= most)
    axes.set_xticks([1, *(n for n in range(every, horizon + 1, every) if n > 1)])


def _plain(axes: Axes, grid: bool = False) -> None:
    axes.tick_params(labelsize=7, colors=MUTED, length=2.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
        axes.spines[side].set_linewidth(0.6)
    if grid:
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
