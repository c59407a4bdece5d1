"""`/metrics` for Prometheus: requests, times and tokens as the interface sees them; queue, batch and memory as the engines do.

Several worker processes write their numbers into files of one folder, and any of them answers for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from regard.serve.journal import Record
from regard.serve.models import Models
from regard.serve.work import Histogram as EngineHistogram
from regard.serve.work import Statistics

disable_created_metrics()  # they would add an unused series for each
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client when it is imported
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
COUNTED = {
    "steps": "decoding steps",
    "row_steps": "rows of all decoding steps; divided by steps, the mean batch",
    "prompt_tokens": "tokens read",
    "generated_tokens": "tokens written",
    "accepted": "pieces of work accepted",
    "finished": "pieces of work finished",
    "failed": "pieces of work that failed",
    "cancelled": "pieces of work given up by the client",
    "expired": "pieces of work that were not done in time",
    "refused": "pieces of work refused because the queue was full",
}
NOW = {
    "queued": "pieces of work that wait",
    "active": "pieces of work that are being done",
    "rows": "texts in the batch",
    "memory": "bytes counted for the texts in the batch",
    "memory_limit": "bytes that texts in the batch may take",
}
TIMES = {
    "waiting": "seconds from acceptance to the first step",
    "first_token": "seconds from acceptance to the first piece of text, or the result",
    "latency": "seconds from acceptance to the result",
}


@dataclass
class Metrics:
    models: Models
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        here: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("regard_http_requests", "answers by status", ["route", "model", "status"], **here)
        self.seconds = Histogram("regard_http_seconds", "seconds of a request", ["route", "model"], buckets=SECONDS, **here)
        self.first = Histogram(
            "regard_http_first_token_seconds",
            "seconds to the first piece of a stream",
            ["route", "model"],
            buckets=SECONDS,
            **here,
        )
        self.counters = {name: Counter(f"regard_engine_{name}", about, ["model"], **here) for name, about in COUNTED.items()}
        self.gauges = {
            name: Gauge(f"regard_engine_{name}", about, ["model"], multiprocess_mode="livesum", **here)
            for name, about in NOW.items()
        }
        self._before: dict[str, Statistics] = {}
        if FOLDER not in os.environ:
            self.registry.register(EngineTimes(self.models))

    def observe(self, record: Record, status: int, seconds: float) -> None:
        """Count one request."""
        names = (record.route, record.model or "")
        self.requests.labels(*names, str(status)).inc()
        self.seconds.labels(*names).observe(seconds)
        if record.first_token is not None:
            self.first.labels(*names).observe(record.first_token)

    def update(self) -> None:
        """Take over what the engines of this process have counted."""
        for model in self.models:
            now, before = model.engine.statistics(), self._before.get(model.name)
            for name, counter in self.counters.items():
                counter.labels(model.name).inc(max(0, getattr(now, name) - (getattr(before, name) if before else 0)))
            for name, gauge in self.gauges.items():
                gauge.labels(model.name).set(getattr(now, name))
            self._before[model.name] = now

    def page(self) -> bytes:
        """Return the text that Prometheus reads, for all worker processes."""
        self.update()
        if FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)
        return generate_latest(together)


@dataclass(eq=False)
class EngineTimes(Collector):
    """The histograms of the engines, as they stand when the page is asked for."""

    models: Models

    def collect(self) -> Iterator[HistogramMetricFamily]:
        for name, about in TIMES.items():
            family = HistogramMetricFamily(f"regard_engine_{name}_seconds", about, labels=["model"])
            for model in self.models:
                found: EngineHistogram = getattr(model.engine.statistics(), name)
                buckets = [(_bound(bound), count) for bound, count in zip(found.bounds, found.counts)]
                family.add_metric([model.name], buckets, found.total)
            yield family


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)
