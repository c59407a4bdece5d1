"""How everything here is measured: alternating, medians of several, outputs compared first, written with device and versions."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def alternate(contenders: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 3) -> dict[str, list[float]]:
    """Seconds of every contender, taken in turn so that a slow moment of the machine hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + warm_up):
        for name, run in contenders.items():
            _wait()
            began = time.perf_counter()
            run()
            _wait()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def summary(seconds: list[float]) -> dict[str, float]:
    quartiles = statistics.quantiles(seconds, n=4)
    return {"median": statistics.median(seconds), "lower_quartile": quartiles[0], "upper_quartile": quartiles[2]}


def write(name: str, results: Mapping[str, Any]) -> Path:
    cuda = torch.cuda.is_available()
    record = {
        "benchmark": name,
        "date": str(date.today()),
        "device": torch.cuda.get_device_name() if cuda else f"{platform.machine()} CPU, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "torch": torch.__version__,
        **results,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.{'cuda' if cuda else 'cpu'}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
