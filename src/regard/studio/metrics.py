"""A run's metrics.jsonl as curves. Whatever stands in it, the answer has numbers that can be drawn, and says what it left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.training.checkpoint import finite_number
from regard.training.logging import read_metrics

POINTS = 800  # of a curve
NAMED = 3  # of what is left out
Curve = list[tuple[int, float]]


def curves_of(path: Path) -> dict[str, Any]:
    """Numbers by step, thinned to what a curve can show; the last is always there."""
    records, damaged = read_metrics(path)
    curves: dict[str, Curve] = {}
    odd: list[str] = []
    for record in records:
        for name, value in record.items():
            if name == "step" or isinstance(value, (bool, list, dict)) or value is None:  # samples, and what others may add
                continue
            if (number := finite_number(value)) is not None:
                curves.setdefault(name, []).append((record["step"], number))
            else:
                odd.append(f"{name[:40]} of step {record['step']:,}")
    notes = [f"{damaged:,} damaged line{'s are' if damaged > 1 else ' is'} left out"] if damaged else []
    if odd:
        more = f" and {len(odd) - NAMED:,} more" if len(odd) > NAMED else ""
        notes.append(f"left out, for it is no finite number: {', '.join(odd[:NAMED])}{more}")
    return {"curves": {name: _thinned(points) for name, points in curves.items()}, "notes": notes}


def _thinned(points: Curve) -> Curve:
    every = -(-len(points) // POINTS)
    return points[:: max(1, every)] + (points[-1:] if (len(points) - 1) % max(1, every) else [])
