"""How everything here is measured: alternating, medians of several, outputs compared first, written with device and versions.

A subject times its systems with `alternate`, turns the seconds of each case into a `row`, and hands all rows to `write`:

    seconds = alternate({"regard": ours, "hugging face": theirs}, rounds=7)
    rows = [row("batch 1", "tokens/s", 32, seconds, bars={"regard / hugging face": {"floor": 2.0, "goal": 3.5}})]
    write("decode", title="Decoding", setting="Random weights, 32 tokens forced.", rows=rows, versions=versions("transformers"))
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any, NotRequired, TypedDict, overload

import torch
from torch.profiler import ProfilerActivity, profile

RESULTS = Path(__file__).parent / "results"
REST = 0.0 if torch.cuda.is_available() else 0.4  # seconds: on a CPU, threads of the one before go on spinning for a while


class Speed(TypedDict):
    median: float
    lower_quartile: float
    upper_quartile: float
    peak_bytes: NotRequired[int]


class Bar(TypedDict, total=False):
    """What a ratio must reach, and what it should."""

    floor: float
    goal: float


class Row(TypedDict):
    """One case, all systems: how fast each is, and how many times as fast one is as another."""

    case: str
    unit: str
    systems: dict[str, Speed]
    ratios: dict[str, float]
    bars: dict[str, Bar]


class Table(TypedDict):
    """What a subject found besides speeds, in cells to be shown as they are."""

    title: str
    columns: list[str]
    rows: list[list[str]]


class Line(TypedDict):
    x: list[float]
    y: list[float]


class Curves(TypedDict):
    """Lines on two logarithmic axes; labels say what each line is."""

    title: str
    x: str
    y: str
    lines: dict[str, Line]


def alternate(contenders: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 3) -> dict[str, list[float]]:
    """Seconds of every contender, taken in turn so that a slow moment of the machine hits all alike.

    Each round has its own order, since whoever comes after a contender with the same data finds them in the cache. A GPU is
    waited for on both sides of the clock; the warm-up is where kernels are compiled and chosen.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    chance = random.Random(0)
    for number in range(rounds + warm_up):
        for name in chance.sample(list(contenders), len(contenders)):
            _wait()
            time.sleep(REST)
            began = time.perf_counter()
            contenders[name]()
            _wait()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def peak_bytes(run: Callable[[], object]) -> int:
    """The most memory torch gave out during one call, beyond what was held before it."""
    if torch.cuda.is_available():
        _wait()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        _wait()
        return torch.cuda.max_memory_allocated() - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would tell when it starts and stops
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    given = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]")
    return max(accumulate(count for _, count in given), default=0)


def summary(values: Sequence[float]) -> Speed:
    lower, _, upper = statistics.quantiles(values, n=4)
    return {"median": statistics.median(values), "lower_quartile": lower, "upper_quartile": upper}


def row(
    case: str,
    unit: str,
    work: float,
    seconds_by_system: Mapping[str, Sequence[float]],
    *,
    pairs: Sequence[tuple[str, str]] | None = None,
    bars: Mapping[str, Bar] | None = None,
    peaks: Mapping[str, int] | None = None,
) -> Row:
    """Alternated seconds and the work done in them (tokens, say) as speeds, and as ratios of one system to another.

    A ratio is the median of the ratios within each round, whose systems met the machine in the same mood. `pairs` are the systems
    compared; without it, the first with every other.
    """
    first, *others = seconds_by_system
    ratios = {
        f"{ours} / {theirs}": statistics.median(b / a for a, b in zip(seconds_by_system[ours], seconds_by_system[theirs]))
        for ours, theirs in ([(first, other) for other in others] if pairs is None else pairs)
    }
    if strangers := set(bars or {}) - set(ratios):
        raise ValueError(f"bars name ratios that are not taken: {sorted(strangers)} (taken: {sorted(ratios)})")
    systems = {name: summary([work / each for each in seconds]) for name, seconds in seconds_by_system.items()}
    for name, peak in (peaks or {}).items():
        systems[name]["peak_bytes"] = peak
    return {"case": case, "unit": unit, "systems": systems, "ratios": ratios, "bars": dict(bars or {})}


@overload
def write(name: str, results: Mapping[str, Any]) -> Path: ...
@overload
def write(
    name: str,
    *,
    title: str,
    setting: str,
    rows: Sequence[Row],
    versions: Mapping[str, str],
    tables: Sequence[Table] = (),
    curves: Sequence[Curves] = (),
) -> Path: ...
def write(
    name: str,
    results: Mapping[str, Any] | None = None,
    *,
    title: str = "",
    setting: str = "",
    rows: Sequence[Row] = (),
    versions: Mapping[str, str] | None = None,
    tables: Sequence[Table] = (),
    curves: Sequence[Curves] = (),
) -> Path:
    """Record a race, or (`results`) findings that are none, in a form of their own."""
    race = {"title": title, "versions": versions, "setting": setting, "rows": rows, "tables": tables, "curves": curves}
    cuda = torch.cuda.is_available()
    record = {
        "benchmark": name,
        "date": str(date.today()),
        "device": torch.cuda.get_device_name() if cuda else _cpu(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **(race if results is None else results),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.{'cuda' if cuda else 'cpu'}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    return path


def versions(*packages: str) -> dict[str, str]:
    return {name: version(name) for name in packages}


def _cpu() -> str:
    return f"{platform.machine()} CPU, {(n := torch.get_num_threads())} thread{'s' if n > 1 else ''}"


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
