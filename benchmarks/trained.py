"""Trainings by our own command, where another process finds them, as it does not find what a script has itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.relay import Baton
from benchmarks.steps import DEVICE
from regard.commands.train import train_run
from regard.data.loader import Loader, Work
from regard.runs.init_recipe import load_recipe_to_train


class Trained(NamedTuple):
    scores: dict[str, Any]  # on data.test
    seconds: float  # of training and validating
    validation: float  # the best of what train.best names


def trained(recipe: str, settings: Sequence[str]) -> Trained:
    """All that `regard train` does; the run is not kept."""
    with tempfile.TemporaryDirectory() as name:
        outcome = train_run(load_recipe_to_train(recipe, settings), Path(name) / "run", DEVICE, lambda line: None)
    assert outcome.result is not None  # there is a test set
    assert outcome.progress.best is not None  # and something to validate with
    return Trained(outcome.result.as_dict(), outcome.progress.seconds, outcome.progress.best)


def trained_in_turns(baton: Baton, recipe: str, settings: Sequence[str]) -> Trained:
    """The same, halted by the baton after every step but the last: the loader, asked for the next, has seen one taken."""
    start = Loader.start

    def in_turns(loader: Loader, step: int, stop: int) -> Iterator[Work]:
        for work in start(loader, step, stop):
            yield work
            baton.did(work.tokens)

    Loader.start = in_turns  # type: ignore[assignment, method-assign]  # in this process, which ends with the training
    return trained(recipe, settings)
