"""Drawn series: their least error holds for whoever knows how they were made."""

from __future__ import annotations

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.data.builtin.series import EVENT, JUMP, KINDS, LEVEL, NOISE, PREFIX, ROWS, best_error, draw_series


def basis(event_T: np.ndarray | None = None) -> np.ndarray:
    """What a trend and two seasons are sums of, and events."""
    t = np.arange(ROWS)
    waves = [f(2 * np.pi * t / period) for period in (24, 12, 168) for f in (np.sin, np.cos)]
    return np.stack([np.ones(ROWS), t / ROWS, *waves, *([] if event_T is None else [event_T])], 1)


def residual(values_TC: np.ndarray, parts_TX: np.ndarray) -> np.ndarray:
    return values_TC - parts_TX @ np.linalg.lstsq(parts_TX, values_TC, rcond=None)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_series_are_drawn_alike_every_time(kind):
    first, second = draw_series(PREFIX + kind), draw_series(PREFIX + kind)
    assert np.array_equal(first.values_TC, second.values_TC)
    assert first.values_TC.shape == (ROWS, 3)
    assert (np.diff(first.dates) == np.timedelta64(3600, "s")).all()


def test_what_a_model_can_know_leaves_the_stated_error():
    seasons = draw_series(PREFIX + "seasons")
    np.testing.assert_allclose((residual(seasons.values_TC, basis()) ** 2).mean(0), NOISE**2, rtol=0.1)
    np.testing.assert_allclose(best_error(PREFIX + "seasons", 24, False), NOISE**2)
    events = draw_series(PREFIX + "events")
    read = (residual(events.values_TC, basis(events.event_T)) ** 2).mean(0)
    unread = (residual(events.values_TC, basis()) ** 2).mean(0)
    np.testing.assert_allclose(read, best_error(PREFIX + "events", 24, True), rtol=0.1)
    np.testing.assert_allclose(unread, best_error(PREFIX + "events", 24, False), rtol=0.1)
    assert (best_error(PREFIX + "events", 24, False) > best_error(PREFIX + "events", 24, True) + 0.05 * EVENT**2).all()


def test_nobody_knows_when_a_level_jumps():
    """The best forecast of a level that was a: a (1 - 2P)^h; its error by simulation."""
    random = np.random.default_rng(0)
    jumps = random.random((200_000, 24)) < JUMP
    level = np.where(np.cumsum(jumps, 1) % 2, -1, 1)
    forecast = (1 - 2 * JUMP) ** np.arange(1, 25)
    error = ((level - forecast) ** 2).mean()
    found = best_error(PREFIX + "regimes", 24, False)
    np.testing.assert_allclose(found, NOISE**2 + LEVEL**2 * error, rtol=0.02)


def test_other_names_are_refused():
    with pytest.raises(UserError, match="builtin:series/seasons"):
        draw_series("builtin:series/season")
