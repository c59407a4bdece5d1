"""Calendar features against Python's datetime."""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import datetime

import numpy as np

from regard.data.sources.calendar import calendar_names, calendar_of

KINDS = ("minute", "hour", "weekday", "monthday", "yearday", "month")


def turns(when: datetime) -> list[float]:
    days = 366 if isleap(when.year) else 365
    return [
        when.minute / 60,
        when.hour / 24,
        when.weekday() / 7,
        (when.day - 1) / monthrange(when.year, when.month)[1],
        (when.timetuple().tm_yday - 1) / days,
        (when.month - 1) / 12,
    ]


def test_each_feature_is_an_angle_of_its_cycle():
    dates = np.datetime64("1969-02-27T22:15:00", "s") + np.arange(3_000) * np.timedelta64(371_159, "s")
    found = calendar_of(dates, KINDS)
    angles = 2 * np.pi * np.array([turns(date.item()) for date in dates])
    np.testing.assert_allclose(found[:, ::2], np.sin(angles), atol=1e-12)
    np.testing.assert_allclose(found[:, 1::2], np.cos(angles), atol=1e-12)


def test_columns_are_named_after_their_features():
    assert calendar_names(("hour", "month")) == ("hour sin", "hour cos", "month sin", "month cos")
    assert calendar_of(np.array(["2024-01-01"], "datetime64[s]"), ("hour",)).tolist() == [[0, 1]]
