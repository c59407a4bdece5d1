"""Draw attention over a series: the series and its forecast above, what each token attends to below, on the same axis of time.

Between channels there is no time, so each channel's past is drawn beside its row of weights.

Dims: N maps, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regard.lens.display import drawable
from regard.lens.plots.charts import COLOURS, GRID
from regard.lens.plots.render import FRAME, INK, MUTED, SHADES
from regard.lens.subject import SeriesTokens

WIDE, ABOVE, SERIES, MAP = 9.6, 0.8, 1.9, 2.1  # inches
MOST_MAPS, MOST_CHANNELS = 4, 24
FORECAST = COLOURS[1]


def draw_times(
    title: str,
    caption: str,
    series: SeriesTokens,
    spans: tuple[np.ndarray, np.ndarray],
    names: Sequence[str],
    weights_NQK: np.ndarray,
) -> Figure:
    """Draw the series of one channel, and below it a map for each name: a row a query, from the first time on."""
    shown = min(len(names), MOST_MAPS)
    figure = Figure(figsize=(WIDE, ABOVE + SERIES + MAP * shown), facecolor="white", layout="constrained")
    _heading(figure, title, caption + ("" if shown == len(names) else f" The first {shown} of {len(names)}."))
    rows = figure.subplots(1 + shown, 1, sharex=True, height_ratios=[SERIES, *[MAP] * shown])
    edges, times = _times(series)
    _draw_series(rows[0], series, times)
    rows[0].set_xlim(edges[0], edges[-1])
    query_spans, key_spans = spans
    most = float(weights_NQK[:shown].max())
    for axes, name, weights_QK in zip(rows[1:], names, weights_NQK):
        begins = np.append(key_spans[:, 0], key_spans[-1, 1])  # patches overlap: each is drawn up to where the next begins
        down = np.arange(len(query_spans) + 1)
        image = axes.pcolormesh(edges[begins], down, weights_QK, cmap=SHADES, vmin=0, vmax=most, rasterized=True)
        axes.set_ylim(len(query_spans), 0)
        axes.set_ylabel(drawable(name, 22), fontsize=8, color=INK, parse_math=False)
        axes.axvline(edges[series.lookback], color=MUTED, linewidth=0.7)
        _row_names(axes, series, query_spans)
        _plain(axes)
    bar = figure.colorbar(image, ax=list(rows[1:]), shrink=0.5, aspect=25, pad=0.01)
    bar.ax.tick_params(labelsize=7, colors=MUTED)
    bar.outline.set_visible(False)
    _name_times(rows[-1], series)
    return figure


def draw_channels(
    title: str, caption: str, series: SeriesTokens, tokens: Sequence[str], names: Sequence[str], weights_NQK: np.ndarray
) -> Figure:
    """Draw the past and the forecast of each channel, and beside it what its token attends to."""
    shown, count = min(len(names), MOST_MAPS), min(len(tokens), MOST_CHANNELS)
    tall = max(2.4, 0.42 * count)
    cut = "" if count == len(tokens) else f" The first {count} of {len(tokens)} tokens."
    figure = Figure(
        figsize=(3.6 + max(2.2, 0.28 * count + 0.9) * shown, ABOVE + 0.9 + tall), facecolor="white", layout="constrained"
    )
    _heading(figure, title, caption + cut)
    grid = figure.add_gridspec(count, 1 + shown, width_ratios=[2.6, *[max(2.2, 0.28 * count)] * shown], hspace=0.0)
    times = np.arange(series.lookback + len(series.forecast_HC))
    for n in range(count):
        axes = figure.add_subplot(grid[n, 0])
        axes.set_axis_off()
        if n < len(series.channels):
            axes.plot(times[: series.lookback], series.past_LC[:, n], color=INK, linewidth=0.8)
            axes.plot(times[series.lookback :], series.forecast_HC[:, n], color=FORECAST, linewidth=1.1)
        axes.margins(x=0.0, y=0.12)
        axes.text(
            -0.02, 0.5, drawable(tokens[n], 16), transform=axes.transAxes, ha="right", va="center", fontsize=7.5, parse_math=False
        )
    most = float(weights_NQK[:shown, :count, :count].max())
    image: Any = None
    for column, (name, weights_QK) in enumerate(zip(names[:shown], weights_NQK), 1):
        axes = figure.add_subplot(grid[:, column])
        image = axes.imshow(weights_QK[:count, :count], cmap=SHADES, vmin=0, vmax=most, aspect="auto")
        axes.set_title(drawable(name, 26), fontsize=8.5, color=INK, loc="left", parse_math=False)
        axes.set_xticks(
            range(count), [drawable(token, 12) for token in tokens[:count]], rotation=60, ha="right", fontsize=7, parse_math=False
        )
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(FRAME)
    bar = figure.colorbar(image, ax=figure.axes[-shown:], shrink=0.5, aspect=25, pad=0.02)
    bar.ax.tick_params(labelsize=7, colors=MUTED)
    bar.outline.set_visible(False)
    return figure


def _heading(figure: Figure, title: str, caption: str) -> None:
    figure.suptitle(
        f"{drawable(title, 100)}\n{drawable(caption, 130)}", fontsize=9.5, color=INK, x=0.01, ha="left", parse_math=False
    )


def _times(series: SeriesTokens) -> tuple[np.ndarray, np.ndarray]:
    """Return the borders of all times and their middles, as matplotlib places them."""
    if series.dates_M is None:
        at_M = np.arange(series.lookback + len(series.forecast_HC), dtype=float) - series.lookback + 1
    else:
        at_M = np.asarray(date2num(series.dates_M))
    half = float(np.median(np.diff(at_M))) / 2
    return np.append(at_M - half, at_M[-1] + half), at_M


def _draw_series(axes: Axes, series: SeriesTokens, times: np.ndarray) -> None:
    at, n = series.lookback, series.channel
    axes.plot(times[:at], series.past_LC[:, n], color=INK, linewidth=0.9, label="past")
    if series.actual_HC is not None:
        came = [series.past_LC[-1, n], *series.actual_HC[:, n]]
        axes.plot(times[at - 1 :], came, color=INK, linewidth=0.8, alpha=0.5, label="what happened")
    axes.plot(times[at:], series.forecast_HC[:, n], color=FORECAST, linewidth=1.4, label="forecast")
    if series.interval is not None:
        low, high = (side[:, n] for side in series.interval)
        axes.fill_between(times[at:], low, high, color=FORECAST, alpha=0.2, linewidth=0, label=f"{series.share} interval")
    axes.axvline((times[at - 1] + times[at]) / 2, color=MUTED, linewidth=0.7)
    axes.set_ylabel(drawable(series.channels[n], 18), fontsize=8, color=INK, parse_math=False)
    axes.legend(fontsize=7, frameon=False, loc="lower left", ncols=4, bbox_to_anchor=(0.0, 1.0), borderaxespad=0.1)
    axes.grid(color=GRID, linewidth=0.5)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    _plain(axes)


def _row_names(axes: Axes, series: SeriesTokens, spans: np.ndarray) -> None:
    """Name some rows by the time that they begin at, counted from the last that is read."""
    every = max(1, -(-len(spans) // 6))
    at = range(0, len(spans), every)
    axes.set_yticks([n + 0.5 for n in at], [f"{spans[n, 0] - series.lookback + 1:+d}" for n in at])


def _name_times(axes: Axes, series: SeriesTokens) -> None:
    if series.dates_M is None:
        axes.set_xlabel("times from the last that is read", fontsize=8, color=MUTED)
        return
    locator = AutoDateLocator(maxticks=9)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.xaxis.get_offset_text().set(fontsize=7, color=MUTED)


def _plain(axes: Axes) -> None:
    axes.tick_params(labelsize=7, colors=MUTED, length=2.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FRAME)
