"""The log of a training: metrics.jsonl, a progress line on the terminal, and curves.png with losses and learning rate."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.files import MIB, name_os_errors, open_append, read_bounded, write_whole
from regard.core.terminal import printable
from regard.training.checkpoint import finite_number

LARGEST = 256 * MIB  # of metrics.jsonl: two million lines
MOST_STEPS = 1 << 53  # the largest integer that JSON readers keep exactly


class RunLog:
    """The log of one run; a resumed run drops the records after its checkpoint, which will be computed again."""

    def __init__(self, folder: Path, steps: int, start: int, unit: str = "tokens") -> None:
        """Read the records up to step `start`; `unit` is what a loss is counted in."""
        self.path, self.steps, self.start, self.unit = folder / "metrics.jsonl", steps, start, unit
        found, damaged = read_metrics(self.path)
        self.records = [r for r in found if r["step"] <= start]
        write_whole(self.path, "".join(json.dumps(r) + "\n" for r in self.records))
        self.began = time.perf_counter()
        self.live = sys.stderr.isatty()
        if damaged:
            self.say(f"{self.path}: {damaged} damaged lines are left out; the others are kept, and the training is not affected.")

    def record(self, **values: Any) -> None:
        self.records.append(values)
        with name_os_errors(self.path), open_append(self.path) as file:
            file.write((json.dumps(values) + "\n").encode())

    @property
    def per_second(self) -> str:
        """Return the key of the speed in metrics.jsonl: tokens_per_second, texts_per_second."""
        return f"{self.unit.replace(' ', '_')}_per_second"

    def progress(self, step: int, loss: float, rate: float, speed: float) -> None:
        remaining = (time.perf_counter() - self.began) / max(1, step - self.start) * (self.steps - step)
        self.say(
            f"{step:>6}/{self.steps} {step / self.steps:4.0%}  loss {loss:6.3f}  "
            f"lr {rate:.1e}  {speed:>7,.0f} {self.unit}/s  {clock(remaining)} left",
            passing=True,
        )

    def say(self, line: str, passing: bool = False) -> None:
        """Print a line; on a terminal a `passing` line is overwritten by the next."""
        line = printable(line, keep="\n\t")
        if not self.live:
            print(line, file=sys.stderr, flush=True)
            return
        print(f"\r\x1b[2K{line}", end="" if passing else "\n", file=sys.stderr, flush=True)

    def render(self) -> None:
        """Write curves.png and samples.txt from the records."""
        draw_curves(self.records, self.path.with_name("curves.png"))
        sampled = [r for r in self.records if isinstance(r.get("samples"), list)]
        text = "\n\n".join(f"step {r['step']}\n" + "\n".join(map(str, r["samples"])) for r in sampled)
        write_whole(self.path.with_name("samples.txt"), text + "\n")


class Metrics(NamedTuple):
    """The readable lines of a metrics.jsonl, and the number of unreadable ones."""

    records: list[dict[str, Any]]
    damaged: int


def read_metrics(path: Path) -> Metrics:
    """Return records, each with a step. A last line that was cut off does not count as damaged; a missing file has no records."""
    lines = read_bounded(path, LARGEST, within=path.parent).splitlines(keepends=True) if path.exists() else []
    found = [_record(line) for line in lines]
    damaged = sum(record is None and line.endswith(b"\n") for record, line in zip(found, lines))
    return Metrics([record for record in found if record is not None], damaged)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # not JSON, or not text
        return None
    step = record.get("step") if isinstance(record, dict) else None
    return record if type(step) is int and 0 <= step < MOST_STEPS else None


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def duration(seconds: float) -> str:
    """Return a duration as text, in seconds, minutes, hours or days."""
    for unit, size, most in (("s", 1, 100), ("min", 60, 100), ("hours", 3600, 48)):
        if seconds < most * size:
            return f"{seconds / size:.{0 if size == 1 else 1}f} {unit}"
    return f"{seconds / 86_400:,.1f} days"


INK, TRAIN, VALID, RATE = "#333a45", "#9aa7b8", "#c2410c", "#0f766e"


def draw_curves(records: Sequence[dict[str, Any]], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # imported here: half a second that only training needs
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes, rates = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    _line(axes, records, "loss", TRAIN, "training (smoothed)")
    _line(axes, records, "valid_nll", VALID, "validation", marker="o")
    _line(rates, records, "learning_rate", RATE, None)
    axes.set_ylabel("loss per token")
    rates.set_ylabel("rate")
    rates.set_xlabel("step")
    rates.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    if axes.get_lines():
        axes.legend(frameon=False)
    for each in (axes, rates):
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(colors=INK)
        each.grid(alpha=0.15)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=130)
    write_whole(path, drawn.getvalue())


def _line(axes: Any, records: Sequence[dict[str, Any]], key: str, colour: str, label: str | None, marker: str = "") -> None:
    points = [(r["step"], number) for r in records if (number := finite_number(r.get(key))) is not None]
    if points:
        axes.plot(*zip(*points), color=colour, label=label, marker=marker, markersize=3, linewidth=1.4)
