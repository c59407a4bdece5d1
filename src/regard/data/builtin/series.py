"""Series that are drawn, so that the best possible error of a forecast is known.

    seasons    trend + daily season (24) + weekly season (168) + noise                              3 channels
    regimes    the same + a level that jumps between two values, staying put with probability 1 - P  3 channels
    events     the same as seasons + what a column `event` announces: six hours that begin at a random hour of some days

Nobody can forecast the noise, nor when a level jumps. With s the standard deviation of the noise, a level of a or -a that jumps
with probability P a step, and event sizes e that are there with a probability q of the hours,

    best mean squared error at h steps ahead = s^2                              seasons, and events whose column is read
                                             = s^2 + a^2 (1 - (1 - 2P)^(2h))    regimes, where the present level is known
                                             = s^2 + e^2 q (1 - q)              events whose column is not read (q as it came out)

The first and the last hold exactly for hours that do not tell whether an event has begun; so they are bounds for every model.
Rows are hours from 2021-01-01 on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.rng import generator

KINDS = ("seasons", "regimes", "events")
PREFIX = "builtin:series/"
ROWS, CHANNELS = 4_000, 3
SEED = 1927  # Yule's paper on sunspots, which begins the field
NOISE = np.array([0.3, 0.4, 0.5])
JUMP, LEVEL = 0.01, np.array([1.0, 1.5, 0.8])
EVENT, LENGTH, SHARE = np.array([2.0, -1.5, 2.5]), 6, 0.4  # size, hours, share of the days that have one


class Drawn(NamedTuple):
    names: tuple[str, ...]
    values_TC: np.ndarray
    event_T: np.ndarray | None
    dates: np.ndarray


def is_builtin(where: str) -> bool:
    return where.startswith("builtin:")


def draw_series(where: str) -> Drawn:
    """Draw builtin:series/KIND."""
    kind = kind_of(where)
    random, t = generator(SEED, f"series/{kind}"), np.arange(ROWS)[:, None]
    sizes = random.uniform(0.8, 1.6, (4, CHANNELS))
    phases = random.uniform(0, 2 * np.pi, (3, CHANNELS))
    values_TC = 10 + np.array([1.0, -1.0, 0.5]) * t / ROWS  # the trend
    values_TC = values_TC + sizes[0] * np.sin(2 * np.pi * t / 24 + phases[0])
    values_TC += 0.5 * sizes[1] * np.sin(4 * np.pi * t / 24 + phases[1]) + sizes[2] * np.sin(2 * np.pi * t / 168 + phases[2])
    values_TC += NOISE * random.standard_normal((ROWS, CHANNELS))
    event_T = None
    if kind == "regimes":
        values_TC += LEVEL * np.where(np.cumsum(random.random((ROWS, CHANNELS)) < JUMP, 0) % 2, 1, -1)
    if kind == "events":
        days = np.flatnonzero(random.random(ROWS // 24) < SHARE)
        begins = days * 24 + random.integers(0, 24 - LENGTH, len(days))
        event_T = np.zeros(ROWS)
        event_T[(begins[:, None] + np.arange(LENGTH)).ravel()] = 1
        values_TC += EVENT * event_T[:, None]
    dates = np.datetime64("2021-01-01T00:00:00", "s") + np.arange(ROWS) * np.timedelta64(3600, "s")
    return Drawn(("a", "b", "c"), values_TC, event_T, dates)


def kind_of(where: str) -> str:
    kind = where.removeprefix(PREFIX)
    if not where.startswith(PREFIX) or kind not in KINDS:
        raise UserError(f"{where} is not known{nearest(where, [PREFIX + name for name in KINDS])}")
    return kind


def best_error(where: str, horizon: int, announced: bool) -> np.ndarray:
    """Return the least mean squared error of each channel, in its units, over `horizon` steps; `announced`: is `event` read?"""
    kind, least_C = kind_of(where), NOISE**2
    if kind == "regimes":
        kept = (1 - 2 * JUMP) ** (2 * np.arange(1, horizon + 1))
        return least_C + LEVEL**2 * (1 - kept).mean()
    if kind == "events" and not announced:
        event_T = draw_series(where).event_T
        assert event_T is not None
        return least_C + EVENT**2 * event_T.var()
    return least_C
