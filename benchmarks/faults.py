"""Never lost: every fault of tests/faults at full size, counted. Nothing may be lost, and nothing may go wrong without a word.

python -m benchmarks.faults
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.measure import write
from tests.faults import damage, non_finite, run_files, small_disk, system_calls, writes
from tests.faults.kills import kill_campaign, signal_campaign
from tests.faults.kinds import EVERY, KINDS
from tests.faults.place import workplace
from tests.faults.server import Server
from tests.faults.tally import Tally

KILLS, SIGNALS = 600, 60  # over all kinds together
FLIPS = 40  # bits in each file, one at a time

Group = dict[str, Any]


def main() -> None:
    torch.set_num_threads(1)
    groups: dict[str, Group] = {}
    with patch("regard.training.logging.draw_curves", lambda records, path: None):  # pictures take most of a tiny training's time
        for name in writes.SCENES:
            _run(groups, f"write faults, {name}", lambda place: writes.campaign(name, place), system_calls.why_not())  # noqa: B023
        with workplace() as place:
            no_disk = small_disk.why_not(place)
        _run(groups, "full disk", lambda place: small_disk.campaign(place, range(4)), no_disk)
        _run(groups, "damaged checkpoints", lambda place: damage.campaign(place, FLIPS))
        _run(groups, "damaged run files", lambda place: run_files.damage_campaign(place, run_files.SEALED, FLIPS))
        _run(groups, "damaged metrics", lambda place: run_files.damage_campaign(place, [run_files.METRICS], FLIPS))
        _run(groups, "changed data", run_files.data_campaign)
        _run(groups, "not a number", _poison)
    _stops(groups)
    injected = {name: group for name, group in groups.items() if "skipped" not in group}
    total = {key: sum(group[key] for group in injected.values()) for key in Tally().as_dict()}
    print(f"{'total':<75} {_line(total)}")
    print(f"written to {write('faults', {'total': total, 'groups': groups}).name}")


def _poison(place: Path) -> tuple[Tally, Group]:
    tally, latest = non_finite.campaign(place, list(non_finite.POISONS), steps=[1, 2, 3, 5, 7, 11])
    return tally, {"most_steps_until_found": latest}


def _stops(groups: dict[str, Group]) -> None:
    server = Server()

    def killed(place: Path, kind: str) -> tuple[Tally, Group]:
        done = kill_campaign(server, kind, place, -(-KILLS // len(KINDS)))
        return done.tally, {"runs": done.runs, "most_steps_lost": done.most_work_lost, "steps_between_checkpoints": EVERY}

    for kind in KINDS:
        _run(groups, f"SIGKILL, {kind}", lambda place: killed(place, kind))  # noqa: B023
        _run(groups, f"SIGTERM and SIGINT, {kind}", lambda p: signal_campaign(server, kind, p, -(-SIGNALS // len(KINDS))))  # noqa: B023
    server.stop()


def _run(groups: dict[str, Group], name: str, campaign: Callable[[Path], Tally | tuple[Tally, Group]], why_not: str = "") -> None:
    """One group of the table, in a folder of its own."""
    if why_not:
        groups[name] = {"skipped": why_not}
        print(f"{name:<75} skipped: {why_not}", flush=True)
        return
    began = time.perf_counter()
    with workplace() as place:
        found = campaign(place)
    tally, more = found if isinstance(found, tuple) else (found, {})
    groups[name] = {**tally.as_dict(), **more, "seconds": round(time.perf_counter() - began, 1)}
    print(f"{name:<75} {_line(groups[name])}", flush=True)
    for wrong in tally.wrong[:10]:
        print(f"    {wrong[:400]}")


def _line(group: Group) -> str:
    return "  ".join(f"{key} {group[key]:>5}" for key in Tally().as_dict())


if __name__ == "__main__":
    main()
