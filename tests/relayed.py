"""Trainings that do nothing, for a process that has little to import."""

from __future__ import annotations

from benchmarks.peers.relay import Baton


def threes(baton: Baton, steps: int) -> str:
    for _ in range(steps):
        baton.did(3)
    return "done"


def failing(baton: Baton) -> None:
    raise RuntimeError("no")
