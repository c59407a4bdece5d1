"""What a training leaves and finds again: checkpoints to continue from, the best and the mean weights, snapshots to look at.

Nothing is kept of weights that are not numbers: whatever is on disk can be gone on with.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard.core.errors import UserError
from regard.model.mixers.feature_maps import is_drawn
from regard.training.checkpoint import NonFinite, Store
from regard.training.config import TrainConfig
from regard.training.data_parallel import ParallelModel, Parts, weights
from regard.training.optimizers import make_optimizer
from regard.training.progress import Progress, done
from regard.training.snapshots import write_snapshot
from regard.training.tensors import flatten_optimizer


def save(store: Store, config: TrainConfig, spread: ParallelModel, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Where the model is held in shards, in shards; but the last one whole, for whoever uses it."""
    tensors, rest = flatten_optimizer(optimizer)
    parts, state = {"model": weights(spread.model), "optimizer": tensors}, {"progress": vars(progress), "optimizer": rest}
    _save_finite(spread, store, "step", progress.step, parts, state, keep=config.keep, whole=done(config, progress))


def save_best(store: Store, spread: ParallelModel, step: int, metrics: dict[str, float]) -> None:
    _save_finite(spread, store, "best", step, {"model": weights(spread.model)}, {"metrics": metrics}, keep=1, whole=True)


def _save_finite(
    spread: ParallelModel, store: Store, kind: str, step: int, parts: Parts, state: dict[str, Any], *, keep: int, whole: bool
) -> None:
    """Weights can burst in a step whose loss was still a number."""
    try:
        spread.save(store, kind, step, parts, state, keep=keep, whole=whole)
    except NonFinite as error:
        raise diverged(f"the training diverged ({str(error).removesuffix('.')})", step, store) from None


def diverged(what: str, step: int, store: Store) -> UserError:
    good = store.newest("step")
    return UserError(
        f"{what} in step {step}; nothing of that step was kept"
        + (f" and {good.path.name} is the newest good checkpoint. " if good else ". ")
        + "Lower train.learning_rate, raise train.warmup or set train.clip=1.0."
    )


def snapshot(store: Store, spread: ParallelModel, step: int) -> None:
    """By one process, into the run's own folder, beside its checkpoints."""
    with spread.world.as_one(), spread.whole() as model:
        if spread.world.leads:
            write_snapshot(store.folder.parent, step, weights(model))


def resume(
    store: Store, config: TrainConfig, model: nn.Module, spread: ParallelModel | None = None
) -> tuple[torch.optim.Optimizer, Progress]:
    """The optimizer and progress of the newest good checkpoint, whose weights are put into the model; or of a fresh start."""
    spread, optimizer = spread or ParallelModel(model), make_optimizer(model, config)
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
