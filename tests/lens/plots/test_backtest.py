"""The picture of a backtest has what it was given: lines where forecasts are, curves of errors, and no more panels than fit."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from matplotlib import axes as matplotlib_axes
from PIL import Image

from regard.lens.plots.backtest import MOST_PANELS, Rolling, Segment, Steps, draw_backtest

RANDOM = np.random.default_rng(0)


def series(count: int, horizon: int, *, dates: bool = False, interval: bool = True) -> Rolling:
    values = RANDOM.normal(size=horizon * (count + 1))
    segments = []
    for n in range(count):
        at = horizon * (n + 1)
        middle = values[at : at + horizon] + 0.1
        segments.append(Segment(at, middle, (middle - 1, middle + 1) if interval else None))
    when = np.datetime64("2024-01-01T00:00:00", "s") + np.arange(len(values)) * np.timedelta64(3600, "s")
    return Rolling("load", values, when if dates else None, segments)


def steps(horizon: int, *, coverage: bool = True) -> Steps:
    errors = {name: RANDOM.random(horizon) for name in ("model", "naive", "seasonal", "linear", "nlinear")}
    return Steps(errors, np.full(horizon, 0.8) if coverage else None, 0.8, 100)


def drawn(monkeypatch: pytest.MonkeyPatch, *given: object) -> tuple[tuple[int, int], list[tuple[np.ndarray, np.ndarray]]]:
    """Return the size of a picture and all lines that were plotted."""
    lines, plot = [], matplotlib_axes.Axes.plot

    def seen(self, *args, **options):
        lines.append(args[:2])
        return plot(self, *args, **options)

    monkeypatch.setattr(matplotlib_axes.Axes, "plot", seen)
    return Image.open(BytesIO(draw_backtest(*given))).size, lines


def test_each_forecast_is_a_line_at_its_time(monkeypatch):
    one, found = series(3, 6, dates=True), steps(6)
    size, lines = drawn(monkeypatch, [one], found, "80%")
    assert size[0] > 1000
    assert len(lines) == 1 + 3 + 5 + 1
    for segment, (at, values) in zip(one.segments, lines[1:4]):
        assert at.tolist() == one.dates[segment.begin : segment.begin + 6].tolist()
        assert values.tolist() == segment.values_H.tolist()
    assert [y.tolist() for _, y in lines[4:9]] == [errors.tolist() for errors in found.errors.values()]


def test_many_short_forecasts_are_one_line(monkeypatch):
    one = series(40, 1)
    _, lines = drawn(monkeypatch, [one], steps(1), "80%")
    assert lines[1][1].tolist() == [segment.values_H[0] for segment in one.segments]


def test_panels_are_limited_and_coverage_is_left_out_where_there_is_none(monkeypatch):
    many = [series(3, 4, interval=False) for _ in range(MOST_PANELS + 2)]
    size, lines = drawn(monkeypatch, many, steps(4, coverage=False))
    assert len(lines) == MOST_PANELS * 4 + 5
    alone, _ = drawn(monkeypatch, many[:1], steps(4, coverage=False))
    assert size[1] > alone[1]
