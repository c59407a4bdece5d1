"""The training loop, from top to bottom on one screen; it does not depend on families or tasks.

`step.py` defines a step. All randomness of a step derives from its number, so a run that is killed anywhere and started again
ends with the same weights, bit for bit on one CPU.
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
from regard.training.compile import prepare_for_training
from regard.training.config import AUTO, TrainConfig
from regard.training.data_parallel import ParallelModel
from regard.training.distributed import SilentLog, StopVote
from regard.training.energy import Meter
from regard.training.logging import RunLog
from regard.training.optimizers import learning_rate
from regard.training.progress import Gauge, Interrupt, Progress, done
from regard.training.resume import diverged, save, save_best, snapshot
from regard.training.step import Stepper, StepStats


class Validation(NamedTuple):
    """The result of a validation."""

    metrics: dict[str, float]  # train.best names the one that chooses the best weights
    samples: list[str]  # a few outputs, for reading


Validate = Callable[[nn.Module], Validation]


def train(
    model: nn.Module,
    objective: Objective,
    loader: Loader,
    validate: Validate,
    config: TrainConfig,
    store: Store,
    log: RunLog | SilentLog,
    progress: Progress,
    optimizer: torch.optim.Optimizer,
    interrupt: Interrupt,
    parallel: ParallelModel | None = None,
) -> Progress:
    """Train from `progress` to the last step, an early stop or an interrupt; return the progress there."""
    if done(config, progress):
        return progress
    prepare_for_training(model, config)
    model.train()
    parallel = parallel or ParallelModel(model)
    stepper, stopping = (
        Stepper(model, objective, loader, optimizer, config, log.say, parallel),
        StopVote(parallel.world, interrupt),
    )
    gauge = Gauge(Meter.of(stepper.device, parallel.world.local == 0), parallel.world, progress)
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
            stats = _read_stats(stepper, rate, store)
            progress = gauge.read(progress)
        if logs:
            _log(log, step, stats, rate, gauge.speed(progress))
            gauge.begin(progress)
            stepper.begin()
        if validates:
            with gauge.paused():
                progress = _validate(parallel, validate, config, store, log, progress)
        if config.snapshot_every and step % config.snapshot_every == 0:
            snapshot(store, parallel, step)
        stop = stop or done(config, progress)
        if saves or stop:
            save(store, config, parallel, optimizer, progress)
        if stop:
            break
    stopping.settle()
    return progress


def _read_stats(stepper: Stepper, rate: float, store: Store) -> StepStats:
    """Read loss and gradient norm from the device; raise if they are not finite."""
    stats = stepper.read_stats()
    if stats.first_bad_step:
        raise diverged(f"the loss or its gradient is not a number at learning rate {rate:.2e}", stats.first_bad_step, store)
    return stats


def _log(log: RunLog | SilentLog, step: int, stats: StepStats, rate: float, speed: float) -> None:
    speeds = {log.per_second: round(speed)}
    log.record(step=step, loss=stats.loss, learning_rate=rate, norm=stats.norm, **speeds)
    log.progress(step, stats.loss, rate, speed)


def _validate(
    parallel: ParallelModel, validate: Validate, config: TrainConfig, store: Store, log: RunLog | SilentLog, progress: Progress
) -> Progress:
    world = parallel.world
    # Eager, since compiling for other shapes and a search would take longer. One process validates; the others wait.
    with world.fail_together(), parallel.unsharded() as model, torch.compiler.set_stance("force_eager"):
        model.eval()
        metrics, samples = validate(model) if world.is_main else Validation({}, [])
        model.train()
    metrics = json.loads(world.broadcast_text(json.dumps(metrics)))
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
    save_best(store, parallel, progress.step, metrics)
    return replace(progress, best=found, best_nll=metrics["nll"], best_step=progress.step, worse=0)


def _is_better(name: str, found: float, nll: float, progress: Progress) -> bool:
    """Return whether a metric is better: higher, except for the loss; of equal metrics, the one with the lower loss."""
    if progress.best is None:
        return True
    if _is_loss(name):
        return found < progress.best
    return found > progress.best or (found == progress.best and progress.best_nll is not None and nll < progress.best_nll)


def _is_loss(name: str) -> bool:
    """Return whether the metric is the loss; `auto` that no task has replaced is."""
    return name in ("nll", AUTO)


def _chosen_by(name: str, metrics: dict[str, float]) -> float:
    name = "nll" if _is_loss(name) else name
    if name not in metrics:
        raise UserError(f"train.best={name} is not what this task is validated by; take one of: {', '.join(metrics)}.")
    return metrics[name]
