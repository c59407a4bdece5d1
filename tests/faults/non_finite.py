"""One value becomes NaN or infinite somewhere in a training: it is found, named, never saved, and the run goes on from before.

The poison is given to torch and to the objective, not to the loop, so that nothing here knows how the loop is written.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from regard.objectives.base import Loss
from regard.objectives.seq2seq import Seq2SeqLoss
from regard.training.checkpoint import Store
from tests.faults.run_files import SETTINGS, Untouched, ask, final_weights
from tests.faults.tally import Tally

VALUES = (float("nan"), float("inf"), -float("inf"))
EVERY = 3  # steps a checkpoint
HOW = (*SETTINGS, f"train.checkpoint_every={EVERY}", "train.validate_every=4", "train.keep=9")


@contextmanager
def _objective(spoil: Callable[[int, bool, Loss], Loss]) -> Iterator[None]:
    """`spoil` gets the number of the step, whether the model is training, and its loss."""
    compute, steps = Seq2SeqLoss.__call__, [0]

    def spoiled(self: Seq2SeqLoss, model: Any, batch: Any) -> Loss:
        steps[0] += model.training
        return spoil(steps[0], model.training, compute(self, model, batch))

    with patch.object(Seq2SeqLoss, "__call__", spoiled):
        yield


@contextmanager
def _optimizer(spoil: Callable[[int, torch.optim.Optimizer], object]) -> Iterator[None]:
    """`spoil` gets the number of the step that was taken, and the optimizer."""
    take, steps = torch.optim.Adam.step, [0]

    def spoiled(self: torch.optim.Adam, *arguments: Any) -> Any:
        result = take(self, *arguments)
        steps[0] += 1
        spoil(steps[0], self)
        return result

    with patch.object(torch.optim.Adam, "step", spoiled):
        yield


def _first(optimizer: torch.optim.Optimizer) -> nn.Parameter:
    parameter: nn.Parameter = optimizer.param_groups[0]["params"][0]
    return parameter


def _put(tensor: Tensor, value: float) -> None:
    tensor.detach().view(-1)[-1] = value


def loss(step: int, value: float) -> Any:
    return _objective(lambda n, training, found: replace(found, total=found.total * value) if training and n == step else found)


def gradient(step: int, value: float) -> Any:
    """The loss is a number, its gradient is not."""

    def spoil(n: int, training: bool, found: Loss) -> Loss:
        if training and n == step:
            found.total.register_hook(lambda gradient: gradient * value)
        return found

    return _objective(spoil)


def validation(step: int, value: float) -> Any:
    def spoil(n: int, training: bool, found: Loss) -> Loss:
        return found if training or n < step else replace(found, parts={**found.parts, "nll": found.parts["nll"] * value})

    return _objective(spoil)


def weights(step: int, value: float) -> Any:
    return _optimizer(lambda n, optimizer: _put(_first(optimizer), value) if n == step else None)


def _moment(name: str) -> Callable[[int, float], Any]:
    return lambda step, value: _optimizer(
        lambda n, optimizer: _put(optimizer.state[_first(optimizer)][name], value) if n == step else None
    )


POISONS: dict[str, Callable[[int, float], Any]] = {
    "loss": loss,
    "gradient": gradient,
    "validation": validation,
    "weights": weights,
    "first moment": _moment("exp_avg"),
    "second moment": _moment("exp_avg_sq"),
}
LATEST = {"loss": 0, "gradient": 0, "validation": 4, "weights": 1, "first moment": 2, "second moment": EVERY}
"""Steps that may pass before it is found. A broken moment shows in the weights a step later, in the loss two steps later; one
that only stops its weight from moving (1/inf) shows when it is about to be saved. Validation comes every fourth step."""


def campaign(folder: Path, poisons: Sequence[str], steps: Sequence[int], values: Sequence[float] = VALUES) -> tuple[Tally, int]:
    """The tally, and the most steps that passed before a poison in loss, gradient or weights was found."""
    tally, latest = Tally(), 0
    untouched = Untouched.train(folder)
    assert ask("train", untouched.recipe, *HOW, "--out", folder / "untouched").code == 0
    expected = final_weights(folder / "untouched")
    for name, step, value in product(poisons, steps, values):
        run = folder / "poisoned"
        with POISONS[name](step, value):
            answer = ask("train", untouched.recipe, *HOW, "--out", run)
        found = re.search(r"in step (\d+)", answer.told)
        late = int(found[1]) - step if found else 99
        newest = _newest_if_all_finite(run)
        named = newest is None or newest in answer.told
        again = ask("train", untouched.recipe, *HOW, "--out", run)
        tally.add(
            f"{name} {value} in step {step}",
            detected=answer.refused and 0 <= late <= LATEST[name] and named,
            recovered=newest != "" and again.code == 0 and final_weights(run) == expected,
            told=f"{late} steps late, {newest} {answer.told[-300:]}",
        )
        latest = max(latest, late if name in ("loss", "gradient", "weights") else 0)
        shutil.rmtree(run)
    return tally, latest


def _newest_if_all_finite(run: Path) -> str | None:
    """The name of the newest checkpoint one can continue from; None if there is none yet, empty if any holds a poison."""
    store = Store(run / "checkpoints")
    for checkpoint in (*store.all("step"), *store.all("best")):
        for part in [path.stem for path in checkpoint.path.glob("*.safetensors")]:
            if not all(torch.isfinite(tensor).all() for tensor in checkpoint.tensors(part).values()):
                return ""
    found = store.newest("step")
    return found.path.name if found else None
