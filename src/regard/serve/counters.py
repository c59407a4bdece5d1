"""Counters of an engine, and seconds in histograms."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate

from regard.serve.work import Histogram

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, float("inf"))  # seconds


class Seconds:
    """Durations, counted by their size."""

    def __init__(self) -> None:
        self.counts, self.total = [0] * len(BOUNDS), 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    @property
    def histogram(self) -> Histogram:
        return Histogram(BOUNDS, tuple(accumulate(self.counts)), self.total)

    @property
    def mean(self) -> float:
        """Return the mean, or 0 before anything was counted."""
        return self.total / max(1, sum(self.counts))


@dataclass
class Counters:
    """Counts of an engine since it started."""

    steps: int = 0
    row_steps: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    accepted: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    refused: int = 0
    waiting: Seconds = field(default_factory=Seconds)
    first_token: Seconds = field(default_factory=Seconds)
    latency: Seconds = field(default_factory=Seconds)
