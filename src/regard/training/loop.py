"""The training loop: one screen that reads from top to bottom, and knows neither families nor tasks.

What a step is stands in `step`. Everything it needs derives from its number, so a run killed anywhere and started again ends with
the same weights, bit for bit on one CPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import NamedTuple

import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.loader import Loader
from regard.model.mixers.feature_maps import renew_features
from regard.objectives.base import Objective
from regard.training.checkpoint import Store
from regard.training.compile import fuse
from regard.training.config import AUTO, TrainConfig
from regard.training.data_parallel import ParallelModel
from regard.training.distributed import Mute, Stopping
from regard.training.energy import Meter
from regard.training.interrupt import Interrupt
from regard.training.logging import RunLog
from regard.training.progress import Gauge, Progress, done
from regard.training.resume import diverged, save, save_best, snapshot
from regard.training.schedule import learning_rate
from regard.training.step import Measured, Stepper


class Validation(NamedTuple):
    metrics: dict[str, float]  # of which train.best decides what is best
    samples: list[str]  # a few outputs, for people


Validate = Callable[[nn.Module], Validation]


def train(
    model: nn.Module,
    objective: Objective,
    loader: Loader,
    validate: Validate,
    config: TrainConfig,
    store: Store,
    log: RunLog | Mute,
    progress: Progress,
    optimizer: torch.optim.Optimizer,
    interrupt: Interrupt,
    spread: ParallelModel | None = None,
) -> Progress:
    """From where `progress` stands to the end, an early stop or an interrupt; returns where it stands then."""
    if done(config, progress):
        return progress
    fuse(model, config)
    model.train()
    spread = spread or ParallelModel(model)
    stepper, stopping = Stepper(model, objective, loader, optimizer, config, log.say, spread), Stopping(spread.world, interrupt)
    gauge = Gauge(Meter.of(stepper.device, spread.world.local == 0), spread.world, progress)
    validate_every, checkpoint_every = (every or loader.per_epoch for every in (config.validate_every, config.checkpoint_every))
    for step, work in enumerate(loader.start(progress.step, config.steps), progress.step + 1):
        rate = learning_rate(config, step)
        renew_features(model, step)
        stepper(step, work, rate)
        more = loader.accumulate if loader.accumulate > config.accumulate else 0
        progress = replace(progress, step=step, tokens=progress.tokens + work.tokens, accumulate=more)
        logs, validates, saves = (
            step % every == 0 or step == config.steps for every in (config.log_every, validate_every, checkpoint_every)
        )
        stop = stopping()
        if logs or validates or saves or stop:
            measured = _measured(stepper, rate, store)
            progress = gauge.read(progress)
        if logs:
            _log(log, step, measured, rate, gauge.speed(progress))
            gauge.begin(progress)
            stepper.begin()
        if validates:
            with gauge.paused():
                progress = _validate(spread, validate, config, store, log, progress)
        if config.snapshot_every and step % config.snapshot_every == 0:
            snapshot(store, spread, step)
        stop = stop or done(config, progress)
        if saves or stop:
            save(store, config, spread, optimizer, progress)
        if stop:
            break
    stopping.settle()
    return progress


def _measured(stepper: Stepper, rate: float, store: Store) -> Measured:
    """Waits for the device, and stops where its numbers are none."""
    measured = stepper.measured()
    if measured.burst:
        raise diverged(f"the loss or its gradient is not a number at learning rate {rate:.2e}", measured.burst, store)
    return measured


def _log(log: RunLog | Mute, step: int, measured: Measured, rate: float, speed: float) -> None:
    speeds = {log.per_second: round(speed)}
    log.record(step=step, loss=measured.loss, learning_rate=rate, norm=measured.norm, **speeds)
    log.progress(step, measured.loss, rate, speed)


def _validate(
    spread: ParallelModel, validate: Validate, config: TrainConfig, store: Store, log: RunLog | Mute, progress: Progress
) -> Progress:
    world = spread.world
    # Eagerly: for other shapes and a search, compiling would take longer. By one process, while the others wait for its word.
    with world.as_one(), spread.whole() as model, torch.compiler.set_stance("force_eager"):
        model.eval()
        metrics, samples = validate(model) if world.leads else Validation({}, [])
        model.train()
    metrics = json.loads(world.tell(json.dumps(metrics)))
    if not isfinite(metrics["nll"]):
        raise diverged(f"the validation loss became {metrics['nll']}", progress.step, store)
    found = _chosen_by(config.best, metrics)
    better = _is_better(config.best, found, metrics["nll"], progress)
    log.record(step=progress.step, **{f"valid_{name}": value for name, value in metrics.items()}, samples=samples)
    shown = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
    log.say(f"{progress.step:>6}  validation  {shown}{'  best so far' if better else ''}")
    log.render()
    if not better:
        return replace(progress, worse=progress.worse + 1)
    save_best(store, spread, progress.step, metrics)
    return replace(progress, best=found, best_nll=metrics["nll"], best_step=progress.step, worse=0)


def _is_better(name: str, found: float, nll: float, progress: Progress) -> bool:
    """Higher is better, but for the loss; where a figure is as good as the best, a lower loss is."""
    if progress.best is None:
        return True
    if _is_loss(name):
        return found < progress.best
    return found > progress.best or (found == progress.best and progress.best_nll is not None and nll < progress.best_nll)


def _is_loss(name: str) -> bool:
    """Nobody has asked the task for its own figure where this still says auto."""
    return name in ("nll", AUTO)


def _chosen_by(name: str, metrics: dict[str, float]) -> float:
    name = "nll" if _is_loss(name) else name
    if name not in metrics:
        raise UserError(f"train.best={name} is not what this task is validated by; take one of: {', '.join(metrics)}.")
    return metrics[name]
