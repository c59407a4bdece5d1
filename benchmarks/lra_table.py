"""The Long Range Arena as tables: what was measured here, beside what its makers and others published.

`arena` is the table of Tay et al. 2021 as its repository has it; its "Performer" has, but for ListOps, plain ReLU features.
`again` are Chen et al. 2021 (Skyformer, table 1: 2 layers, width 64, three seeds, their own splits) and, of what was denoised
first, Amos et al. 2024, a Transformer that predicts its task's own inputs. A score near that of one answer for all did not learn.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.measure import Table

SETTING = (
    "Trained from scratch, the checkpoint with the lowest validation loss scored on the test data once. Several trainings share "
    "the device, so steps/s are of each beside the others. Data and steps are what the last column says, and not the papers': "
    "scores beside each other are no leaderboard. What is denoised has first filled in its own inputs; what is eased has, "
    "too, and then learned easier sets; steps are those after that."
)
COLUMNS = ["attention", "accuracy", "seeds", "arena", "again", "steps/s", "peak", "parameters", "trained"]
CHANCE = {"listops": 17.0, "text": 50.0, "retrieval": 50.0, "pixels": 10.0, "pathfinder": 50.0}  # one answer for all, in percent


class Published(NamedTuple):
    arena: float | None = None
    again: float | None = None

    def __str__(self) -> str:
        return " / ".join("-" if score is None else f"{score:g}" for score in self)


PUBLISHED: dict[str, dict[str, Published]] = {
    "listops": {
        "full": Published(36.37, 38.37),
        "window": Published(15.82),
        "bigbird": Published(36.05, 39.25),
        "performer": Published(18.01, 38.02),
        "linear-relu": Published(16.13),
        "denoised": Published(None, 59.15),
    },
    "text": {
        "full": Published(64.27, 61.95),
        "window": Published(52.98),
        "bigbird": Published(64.02, 63.86),
        "performer": Published(65.40, 64.19),
        "linear-relu": Published(65.90),
        "denoised": Published(None, 88.81),
    },
    "retrieval": {
        "full": Published(57.46, 80.69),
        "window": Published(53.39),
        "bigbird": Published(59.29, 80.28),
        "performer": Published(53.82, 80.04),
        "linear-relu": Published(53.09),
        "denoised": Published(None, 90.38),
    },
    "pixels": {
        "full": Published(42.44, 40.57),
        "window": Published(41.46),
        "bigbird": Published(40.83, 43.16),
        "performer": Published(42.77, 41.43),
        "linear-relu": Published(42.34),
        "denoised": Published(None, 76.0),
    },
    "pathfinder": {
        "full": Published(71.40, 65.26),
        "window": Published(66.63),
        "bigbird": Published(74.87, 68.72),
        "performer": Published(77.05, 66.30),
        "linear-relu": Published(75.30),
        "denoised": Published(None, 88.49),
    },
}


def tables(data: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> list[Table]:
    """One for each task that was measured, a line for each kind of attention."""
    return [
        Table(
            title=f"{task} (one answer for all: {CHANCE[task]:g}%)",
            columns=COLUMNS,
            rows=[_row(task, *each) for each in of.items()],
        )
        for task, of in data.items()
    ]


def small_tables(data: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> list[Table]:
    """The same without what was published, of other inputs."""
    made = []
    for task, of in data.items():
        chance = 100 * next(iter(of.values()))[0]["one_answer"]
        rows = [_score(*each) + _cost(each[1]) for each in of.items()]
        made.append(Table(title=f"{task} (one answer for all: {chance:.1f}%)", columns=[*COLUMNS[:3], *COLUMNS[5:]], rows=rows))
    return made


def _row(task: str, variant: str, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    published = PUBLISHED[task].get(variant, Published())
    return [*_score(variant, runs), *(_told(task, score) for score in published), *_cost(runs)]


def _score(variant: str, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    scores = [100 * run["accuracy"] for run in runs]
    spread = f" ±{statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return [variant, f"{statistics.mean(scores):.2f}{spread}", str(len(scores))]


def _cost(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    speed, peak = (statistics.median(run[key] for run in runs) for key in ("steps_per_second", "peak_bytes"))
    first = runs[0]
    return [
        f"{speed:.1f}",
        f"{peak / 1e9:.2f} GB",
        f"{first['parameters']:,}",
        f"{first['steps']:,} steps of {first['tokens_per_batch']:,} tokens, {first['trained_on']}, {first['seconds']:.0f} s",
    ]


def _told(task: str, score: float | None) -> str:
    if score is None:
        return "-"
    return f"{score:.2f}" + (" (did not learn)" if score < CHANCE[task] + 1.5 else "")
