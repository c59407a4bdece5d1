"""A window of a series as a subject of lens: what a forecaster reads, what it forecasts, and what came.

Dims: L look-back, H horizon, C channels, Q quantiles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core.errors import UserError, nearest
from regard.data.sources.series import next_dates, read_series
from regard.data.sources.series_table import Series, SeriesTable
from regard.lens.series_subject import series_subject
from regard.lens.subject import SeriesTokens, Subject


def table_subject(answers: Any, where: str, target: str | None) -> Subject:
    """Return the last window of a table; `target` is a channel, or SERIES/CHANNEL where a table has several series."""
    table = read_series((where.strip(),), answers.recipe.data, forecasts=True)
    answers.scaling.must_suit(table, where)
    name, mark, channel = (target or "").rpartition("/")
    channels, names = table.channels, [one.name for one in table.series]
    if mark and name not in names:
        raise UserError(f"--target {target}: {where} has no series {name!r}{nearest(name, names)}")
    if channel and channel not in channels:
        raise UserError(f"--target {target}: this run forecasts no channel {channel!r}{nearest(channel, channels)}")
    one = table.series[names.index(name) if mark else 0]
    number = channels.index(channel) if channel else 0
    return window_subject(answers, table, one, last_row(answers, one), number, where.strip())


def last_row(answers: Any, one: Series) -> int:
    """Return where the last window ends: with the last values, or a horizon earlier where more has to be known in advance."""
    rows: int = answers.rows_of(one)
    return min(rows, len(one) - answers.recipe.model.horizon) if answers.recipe.data.known else rows


@torch.no_grad()
def window_subject(answers: Any, table: SeriesTable, one: Series, rows: int, channel: int, where: str) -> Subject:
    """Return the window that ends before a row; what came after it is drawn too where the series has it."""
    c = answers.recipe.model
    one = answers.with_future(one, rows)
    window = answers.window(one, rows, where)
    values_HC, quantiles_HCQ = answers.in_units(answers.model(*window.given)[0].float().cpu())
    actual_HC = one.values_TC[rows : rows + c.horizon]
    came = len(actual_HC) == c.horizon and not np.isnan(actual_HC).any()
    past = None if one.dates is None else one.dates[:rows]
    dates_M = None if past is None else np.concatenate([past[-c.lookback :], next_dates(past, c.horizon)])
    series = SeriesTokens(
        channels=table.channels,
        channel=channel,
        past_LC=one.values_TC[rows - c.lookback : rows],
        forecast_HC=values_HC,
        interval=None if quantiles_HCQ is None else (quantiles_HCQ[..., 0], quantiles_HCQ[..., -1]),
        share=answers.share,
        actual_HC=actual_HC if came else None,
        dates_M=dates_M,
    )
    of = " ".join(part for part in (one.name, table.channels[channel]) if part)
    title = f"{Path(where).name}, {of} → the next {c.horizon} times"
    return series_subject(answers.model, window.given, series, table.known, title)
