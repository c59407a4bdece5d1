"""Metrics of output quality, comparable with published figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class PluginMetric(NamedTuple):
    """A metric of a plugin, added to what `regard evaluate` reports for some tasks, or for all with outputs."""

    score: Callable[[Sequence[str], Any], float]
    """(outputs, test set) -> score. The test set is what the task reads: for translation, pairs with `source` and `target`."""
    tasks: tuple[str, ...]


PLUGIN_METRICS: dict[str, PluginMetric] = {}
