"""Histograms are cumulative, as Prometheus takes them."""

from __future__ import annotations

from regard.serve.counters import BOUNDS, Seconds


def test_seconds_are_counted_below_each_bound() -> None:
    seconds = Seconds()
    assert seconds.mean == 0
    for value in (0.005, 0.006, 0.3, 1000.0):
        seconds.add(value)
    found = dict(zip(BOUNDS, seconds.histogram.counts))
    assert (found[0.005], found[0.01], found[0.25], found[0.5], found[120.0], found[float("inf")]) == (1, 2, 2, 3, 3, 4)
    assert seconds.mean == seconds.histogram.total / 4 == 1000.311 / 4
