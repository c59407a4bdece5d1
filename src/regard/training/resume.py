"""Saving and resuming a training: checkpoints, the best and the averaged weights, and snapshots.

Weights that are not finite are never saved: every checkpoint on disk can be resumed from.

Snapshots are weights in half precision every few steps, RUN/snapshots/step-N.safetensors, to show how a model developed. No
training resumes from one, so none is verified: a snapshot is written under a temporary name first, so that a kill leaves a
complete file or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.atomic import explain_os_errors
from regard.core.errors import UserError
from regard.model.mixers.feature_maps import is_drawn
from regard.training.checkpoint import NonFinite, Store
from regard.training.checkpoint_files import read_tensors, write_tensors
from regard.training.config import TrainConfig
from regard.training.data_parallel import ParallelModel, Parts, weights
from regard.training.lora import merged_state
from regard.training.optimizers import flatten_optimizer, make_optimizer
from regard.training.progress import Progress, done

SNAPSHOTS = "snapshots"
MEMORY = "memory"  # the tensors of a model's segment memory in a checkpoint
SNAPSHOT = re.compile(r"step-(\d+)\.safetensors")


def save(
    store: Store, config: TrainConfig, parallel: ParallelModel, optimizer: torch.optim.Optimizer, progress: Progress
) -> None:
    """Save a checkpoint, sharded if the model is; the last one of a run is not sharded, so that everything can load it."""
    tensors, rest = flatten_optimizer(optimizer)
    parts, state = {"model": weights(parallel.model), "optimizer": tensors}, {"progress": vars(progress), "optimizer": rest}
    if (memory := getattr(parallel.model, "segment_memory", None)) is not None:
        parts |= {MEMORY: memory.tensors()}
    _save_finite(parallel, store, "step", progress.step, parts, state, keep=config.keep, whole=done(config, progress))


def save_best(store: Store, parallel: ParallelModel, step: int, metrics: dict[str, float]) -> None:
    """Save the weights with the best validation so far in place of the former best."""
    _save_finite(parallel, store, "best", step, {"model": weights(parallel.model)}, {"metrics": metrics}, keep=1, whole=True)


def _save_finite(
    parallel: ParallelModel, store: Store, kind: str, step: int, parts: Parts, state: dict[str, Any], *, keep: int, whole: bool
) -> None:
    """Save; explain the error if weights are not finite, which can happen in a step whose loss was still finite."""
    try:
        parallel.save(store, kind, step, parts, state, keep=keep, whole=whole)
    except NonFinite as error:
        raise diverged(f"the training diverged ({str(error).removesuffix('.')})", step, store) from None


def diverged(what: str, step: int, store: Store) -> UserError:
    """Return the error of a training that has diverged, with what to change."""
    good = store.newest("step")
    return UserError(
        f"{what} in step {step}; nothing of that step was kept"
        + (f" and {good.path.name} is the newest good checkpoint. " if good else ". ")
        + "Lower train.learning_rate, raise train.warmup or set train.clip=1.0."
    )


def snapshot(store: Store, parallel: ParallelModel, step: int) -> None:
    """Write a snapshot of the weights into the folder of the run."""
    with parallel.world.fail_together(), parallel.unsharded() as model:
        if parallel.world.is_main:
            write_snapshot(store.folder.parent, step, merged_state(model))


def resume(
    store: Store, config: TrainConfig, model: nn.Module, parallel: ParallelModel | None = None
) -> tuple[torch.optim.Optimizer, Progress]:
    """Load the newest good checkpoint, if any, into the model; return its optimizer and progress."""
    parallel, optimizer = parallel or ParallelModel(model), make_optimizer(model, config)
    found = store.newest("step")
    parallel.world.check_equal(
        str(found and found.step),
        f"the processes do not see the same checkpoints in {store.folder}; give an --out that all machines share.",
    )
    if found is None:
        return optimizer, Progress()
    if parallel.world.is_main:
        store.keep("step", config.keep)  # a run killed between saving and tidying has one too many
        store.keep("best", 1)
    parallel.restore(found, optimizer)
    if (memory := getattr(model, "segment_memory", None)) is not None:
        memory.load(found.tensors(MEMORY), parallel.device)
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


def snapshots(run: Path) -> dict[int, Path]:
    """Return the snapshots of a run, by step."""
    found = {
        int(name[1]): path for path in (run / SNAPSHOTS).glob("step-*.safetensors") if (name := SNAPSHOT.fullmatch(path.name))
    }
    return dict(sorted(found.items()))


def write_snapshot(run: Path, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Write a snapshot; numbers too large for float16 are clamped to its largest, since infinities would break a picture."""
    folder = run / SNAPSHOTS
    with explain_os_errors(f"Writing the snapshot of step {step}", folder):
        folder.mkdir(exist_ok=True)
        temporary = folder / f".step-{step}.tmp"
        write_tensors(temporary, _to_half(tensors))
        temporary.replace(folder / f"step-{step}.safetensors")


def read_snapshot(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a snapshot in float32."""
    return {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in read_tensors(path).items()}


def _to_half(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors in float16; tied weights stay one tensor under both names."""
    most, made = torch.finfo(torch.float16).max, dict[int, Tensor]()
    for tensor in tensors.values():
        if tensor.is_floating_point():
            made.setdefault(id(tensor), tensor.detach().float().clamp(-most, most).half())
    return {name: made.get(id(tensor), tensor) for name, tensor in tensors.items()}
