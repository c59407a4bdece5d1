"""The training loop: one screen that reads from top to bottom, and knows neither families nor tasks.

A step is: draw the batch, sum its micro-batches' gradients, clip, update. Everything a step needs derives from its number, so
a run killed anywhere and started again ends with the same weights, bit for bit on one CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.counted import seed_dropout
from regard.data.loader import Loader
from regard.errors import UserError
from regard.objective.loss import Objective
from regard.train.checkpoint import Store
from regard.train.config import TrainConfig
from regard.train.finite import NonFinite
from regard.train.interrupt import Interrupt
from regard.train.optimizer import make_optimizer, set_learning_rate
from regard.train.optimizer_state import flatten_optimizer, restore_optimizer
from regard.train.runlog import RunLog
from regard.train.schedule import learning_rate


class Validation(NamedTuple):
    metrics: dict[str, float]  # of which "nll" decides what is best
    samples: list[str]  # a few outputs, for people


Validate = Callable[[nn.Module], Validation]


@dataclass(frozen=True)
class Progress:
    """Where a run stands: all that a checkpoint holds beside tensors."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None  # lowest validation loss so far
    best_step: int = 0
    worse: int = 0  # validations since


def train(
    model: nn.Module,
    objective: Objective,
    loader: Loader,
    validate: Validate,
    config: TrainConfig,
    store: Store,
    log: RunLog,
    progress: Progress,
    optimizer: torch.optim.Optimizer,
    interrupt: Interrupt,
) -> Progress:
    """From where `progress` stands to the end, an early stop or an interrupt; returns where it stands then."""
    device = next(model.parameters()).device
    compiled: nn.Module = torch.compile(model, dynamic=True, fullgraph=True) if config.compile else model  # type: ignore[assignment]
    began = time.perf_counter() - progress.seconds
    loss_sum, token_sum, since = 0.0, 0, time.perf_counter()
    model.train()
    if done(config, progress):
        return progress
    for step, batches in enumerate(loader.start(progress.step, config.steps), progress.step + 1):
        rate = learning_rate(config, step)
        set_learning_rate(optimizer, rate)
        count = sum(batch.tokens for batch in batches)
        loss = 0.0
        for micro, batch in enumerate(batches):
            seed_dropout(config.seed, step, micro, loader.rank)
            with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16"):
                total = objective(compiled, batch.to(device)).total / count
            total.backward()
            loss += total.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip or float("inf"))
        if not (isfinite(loss) and torch.isfinite(norm)):
            raise _diverged(f"the loss became {loss} (gradient norm {norm.item():.3g}) at learning rate {rate:.2e}", step, store)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

        progress = replace(progress, step=step, tokens=progress.tokens + count, seconds=time.perf_counter() - began)
        loss_sum, token_sum = loss_sum + loss * count, token_sum + count
        if step % config.log_every == 0 or step == config.steps:
            speed = token_sum / (time.perf_counter() - since)
            log.record(step=step, loss=loss_sum / token_sum, learning_rate=rate, norm=norm.item(), tokens_per_second=round(speed))
            log.progress(step, loss_sum / token_sum, rate, speed)
            loss_sum, token_sum, since = 0.0, 0, time.perf_counter()
        if step % config.validate_every == 0 or step == config.steps:
            paused = time.perf_counter()
            progress = _validate(model, validate, store, log, progress)
            since += time.perf_counter() - paused
        stop = bool(interrupt) or done(config, progress)
        if step % config.checkpoint_every == 0 or stop:
            save(store, config, model, optimizer, progress)
        if stop:
            break
    return progress


def done(config: TrainConfig, progress: Progress) -> bool:
    """All steps taken, or patience lost."""
    return progress.step >= config.steps or 0 < config.patience <= progress.worse


def _validate(model: nn.Module, validate: Validate, store: Store, log: RunLog, progress: Progress) -> Progress:
    model.eval()
    metrics, samples = validate(model)
    model.train()
    if not isfinite(metrics["nll"]):
        raise _diverged(f"the validation loss became {metrics['nll']}", progress.step, store)
    better = progress.best is None or metrics["nll"] < progress.best
    log.record(step=progress.step, **{f"valid_{name}": value for name, value in metrics.items()}, samples=samples)
    shown = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
    log.say(f"{progress.step:>6}  validation  {shown}{'  best so far' if better else ''}")
    log.render()
    if not better:
        return replace(progress, worse=progress.worse + 1)
    progress = replace(progress, best=metrics["nll"], best_step=progress.step, worse=0)
    _save_finite(store, "best", progress.step, {"model": model.state_dict()}, {"metrics": metrics})
    store.keep("best", 1)
    return progress


def _diverged(what: str, step: int, store: Store) -> UserError:
    good = store.newest("step")
    return UserError(
        f"{what} in step {step}; nothing of that step was kept"
        + (f" and {good.path.name} is the newest good checkpoint. " if good else ". ")
        + "Lower train.learning_rate, raise train.warmup or set train.clip=1.0."
    )


def _save_finite(store: Store, kind: str, step: int, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
    """Weights can burst in a step whose loss was still a number."""
    try:
        store.save(kind, step, tensors, state)
    except NonFinite as error:
        raise _diverged(f"the training diverged ({str(error).removesuffix('.')})", step, store) from None


def save(store: Store, config: TrainConfig, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    tensors, rest = flatten_optimizer(optimizer)
    state: dict[str, Any] = {"progress": vars(progress), "optimizer": rest}
    _save_finite(store, "step", progress.step, {"model": model.state_dict(), "optimizer": tensors}, state)
    store.keep("step", config.keep)


def resume(store: Store, config: TrainConfig, model: nn.Module) -> tuple[torch.optim.Optimizer, Progress]:
    """The optimizer and progress of the newest good checkpoint, whose weights are put into the model; or of a fresh start."""
    optimizer = make_optimizer(model, config)
    if (found := store.newest("step")) is None:
        return optimizer, Progress()
    store.keep("step", config.keep)  # a run killed between saving and tidying has one too many
    store.keep("best", 1)
    model.load_state_dict(found.tensors("model"))
    restore_optimizer(optimizer, found.tensors("optimizer"), found.state["optimizer"])
    return optimizer, Progress(**found.state["progress"])


def average(store: Store, count: int, step: int) -> None:
    """Save the mean of the last checkpoints' weights (Vaswani et al. 2017, section 6.1)."""
    last = store.all("step")[-count:]
    weights = [checkpoint.tensors("model") for checkpoint in last]
    mean = {name: torch.stack([w[name].double() for w in weights]).mean(0).to(weights[0][name].dtype) for name in weights[0]}
    store.save("average", step, {"model": mean}, {"of": [checkpoint.path.name for checkpoint in last]})
    store.keep("average", 1)
