"""The training loop: one screen that reads from top to bottom, and knows neither families nor tasks.

What a step is stands in `step`. Everything it needs derives from its number, so a run killed anywhere and started again ends with
the same weights, bit for bit on one CPU.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.data.loader import Loader
from regard.errors import UserError
from regard.model.mixers.features import is_drawn, renew_features
from regard.objective.loss import Objective
from regard.train.checkpoint import Store
from regard.train.config import TrainConfig
from regard.train.energy import Meter, joined
from regard.train.finite import NonFinite
from regard.train.fuse import fuse
from regard.train.interrupt import Interrupt
from regard.train.optimizer import make_optimizer
from regard.train.optimizer_state import flatten_optimizer
from regard.train.parallel import Mute, Stopping
from regard.train.runlog import RunLog
from regard.train.schedule import learning_rate
from regard.train.snapshots import write_snapshot
from regard.train.spread import Parts, Spread, weights
from regard.train.step import Stepper


class Validation(NamedTuple):
    metrics: dict[str, float]  # of which train.best decides what is best
    samples: list[str]  # a few outputs, for people


Validate = Callable[[nn.Module], Validation]


@dataclass(frozen=True)
class Progress:
    """Where a run stands: all that a checkpoint holds beside tensors."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None  # of what train.best names, so far
    best_step: int = 0
    worse: int = 0  # validations since
    accumulate: int = 0  # micro-batches a step, where memory asked for more than the recipe
    joules: float = 0.0
    metered: str = ""  # how the joules were found


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
    spread: Spread | None = None,
) -> Progress:
    """From where `progress` stands to the end, an early stop or an interrupt; returns where it stands then."""
    if done(config, progress):
        return progress
    fuse(model, config)
    model.train()
    spread = spread or Spread(model)
    stepper, stopping = Stepper(model, objective, loader, optimizer, config, log.say, spread), Stopping(spread.world, interrupt)
    meter = Meter.of(stepper.device, spread.world.local == 0)
    began, drawn = time.perf_counter() - progress.seconds, progress.joules
    since, tokens = time.perf_counter(), progress.tokens
    validate_every, checkpoint_every = (every or loader.per_epoch for every in (config.validate_every, config.checkpoint_every))
    for step, work in enumerate(loader.start(progress.step, config.steps), progress.step + 1):
        rate = learning_rate(config, step)
        renew_features(model, step)
        stepper(step, work, rate)
        more = loader.accumulate if loader.accumulate > config.accumulate else 0
        progress = replace(progress, step=step, tokens=progress.tokens + work.tokens, accumulate=more)
        logs, validates = (step % every == 0 or step == config.steps for every in (config.log_every, validate_every))
        stop = stopping()
        saves = stop or step % checkpoint_every == 0 or step == config.steps
        if logs or validates or saves:
            measured = stepper.measured()
            if measured.burst:
                raise _diverged(f"the loss or its gradient is not a number at learning rate {rate:.2e}", measured.burst, store)
            progress = replace(progress, seconds=time.perf_counter() - began, joules=drawn + spread.world.added(meter.joules()))
            progress = replace(progress, metered=joined(progress.metered, meter.how))
        if logs:
            speed = (progress.tokens - tokens) / (time.perf_counter() - since)
            log.record(step=step, loss=measured.loss, learning_rate=rate, norm=measured.norm, tokens_per_second=round(speed))
            log.progress(step, measured.loss, rate, speed)
            since, tokens = time.perf_counter(), progress.tokens
            stepper.begin()
        if validates:
            paused = time.perf_counter()
            progress = _validate(spread, validate, config, store, log, progress)
            since += time.perf_counter() - paused
        if config.snapshot_every and step % config.snapshot_every == 0:
            _snapshot(spread, store, step)
        stop = stop or done(config, progress)
        if saves or stop:
            save(store, config, spread, optimizer, progress)
        if stop:
            break
    stopping.settle()
    return progress


def done(config: TrainConfig, progress: Progress) -> bool:
    """All steps taken, or patience lost."""
    return progress.step >= config.steps or 0 < config.patience <= progress.worse


def _validate(
    spread: Spread, validate: Validate, config: TrainConfig, store: Store, log: RunLog | Mute, progress: Progress
) -> Progress:
    world = spread.world
    # Eagerly: for other shapes and a search, compiling would take longer. By one process, while the others wait for its word.
    with world.as_one(), spread.whole() as model, torch.compiler.set_stance("force_eager"):
        model.eval()
        metrics, samples = validate(model) if world.leads else Validation({}, [])
        model.train()
    metrics = json.loads(world.tell(json.dumps(metrics)))
    if not isfinite(metrics["nll"]):
        raise _diverged(f"the validation loss became {metrics['nll']}", progress.step, store)
    found = _chosen_by(config.best, metrics)
    better = progress.best is None or (found < progress.best if config.best == "nll" else found > progress.best)
    log.record(step=progress.step, **{f"valid_{name}": value for name, value in metrics.items()}, samples=samples)
    shown = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
    log.say(f"{progress.step:>6}  validation  {shown}{'  best so far' if better else ''}")
    log.render()
    if not better:
        return replace(progress, worse=progress.worse + 1)
    progress = replace(progress, best=found, best_step=progress.step, worse=0)
    _save_finite(spread, store, "best", progress.step, {"model": weights(spread.model)}, {"metrics": metrics}, keep=1, whole=True)
    return progress


def _chosen_by(name: str, metrics: dict[str, float]) -> float:
    if name not in metrics:
        raise UserError(f"train.best={name} is not what this task is validated by; take one of: {', '.join(metrics)}.")
    return metrics[name]


def _snapshot(spread: Spread, store: Store, step: int) -> None:
    """By one process, into the run's own folder, beside its checkpoints."""
    with spread.world.as_one(), spread.whole() as model:
        if spread.world.leads:
            write_snapshot(store.folder.parent, step, weights(model))


def _diverged(what: str, step: int, store: Store) -> UserError:
    good = store.newest("step")
    return UserError(
        f"{what} in step {step}; nothing of that step was kept"
        + (f" and {good.path.name} is the newest good checkpoint. " if good else ". ")
        + "Lower train.learning_rate, raise train.warmup or set train.clip=1.0."
    )


def _save_finite(
    spread: Spread, store: Store, kind: str, step: int, parts: Parts, state: dict[str, Any], *, keep: int, whole: bool
) -> None:
    """Weights can burst in a step whose loss was still a number."""
    try:
        spread.save(store, kind, step, parts, state, keep=keep, whole=whole)
    except NonFinite as error:
        raise _diverged(f"the training diverged ({str(error).removesuffix('.')})", step, store) from None


def save(store: Store, config: TrainConfig, spread: Spread, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Where the model is held in shards, in shards; but the last one whole, for whoever uses it."""
    tensors, rest = flatten_optimizer(optimizer)
    parts, state = {"model": weights(spread.model), "optimizer": tensors}, {"progress": vars(progress), "optimizer": rest}
    _save_finite(spread, store, "step", progress.step, parts, state, keep=config.keep, whole=done(config, progress))


def resume(
    store: Store, config: TrainConfig, model: nn.Module, spread: Spread | None = None
) -> tuple[torch.optim.Optimizer, Progress]:
    """The optimizer and progress of the newest good checkpoint, whose weights are put into the model; or of a fresh start."""
    spread, optimizer = spread or Spread(model), make_optimizer(model, config)
    found = store.newest("step")
    spread.world.must_agree(
        str(found and found.step),
        f"the processes do not see the same checkpoints in {store.folder}; give an --out that all machines share.",
    )
    if found is None:
        return optimizer, Progress()
    if spread.world.leads:
        store.keep("step", config.keep)  # a run killed between saving and tidying has one too many
        store.keep("best", 1)
    spread.restore(found, optimizer)
    return optimizer, Progress(**found.state["progress"])


def average(store: Store, count: int, step: int) -> None:
    """Save the mean of the last checkpoints' weights (Vaswani et al. 2017, section 6.1)."""
    last = store.all("step")[-count:]
    weights = [checkpoint.tensors("model") for checkpoint in last]
    learned = [name for name in weights[0] if not is_drawn(name)]
    mean = {name: torch.stack([w[name].double() for w in weights]).mean(0).to(weights[0][name].dtype) for name in learned}
    mean |= {name: tensor for name, tensor in weights[-1].items() if is_drawn(name)}
    store.save("average", step, {"model": mean}, {"of": [checkpoint.path.name for checkpoint in last]})
    store.keep("average", 1)
