"""A model on several processes: a copy in each, whose gradients are summed (DDP), or a shard in each (FSDP2).

Both act when a module is called, and objectives call models in different ways; so both wrap `ObjectiveModule`, a small module
that calls the objective. Parameters keep their names, and a single process is not wrapped.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.atomic import explain_os_errors
from regard.model.block import Stack
from regard.model.mixers.feature_maps import is_drawn
from regard.objectives.base import Objective
from regard.training.checkpoint import Checkpoint, Store, require_finite_tensors
from regard.training.checkpoint_files import cut, read_shards, write_shards
from regard.training.distributed import SINGLE_PROCESS, World
from regard.training.optimizers import restore_optimizer

Parts = Mapping[str, Mapping[str, Tensor]]


class ObjectiveModule(nn.Module):
    """A model and its objective as one module, whose forward pass DDP and FSDP2 can wrap."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, objective: Objective, batch: Any) -> Tensor:
        return objective(self.model, batch).total


class ParallelModel:
    """A model, wrapped for its processes. Create it before the optimizer, which must hold the wrapped parameters."""

    def __init__(
        self, model: nn.Module, world: World = SINGLE_PROCESS, shard: bool = False, device: torch.device | None = None
    ) -> None:
        self.model, self.world = model, world
        self.sharded = shard and world.size > 1
        self.device = device or next(model.parameters()).device
        self.mesh: Any = None
        self.wrapped: Any = ObjectiveModule(model)
        if self.sharded:
            self.copy = copy.deepcopy(model) if world.is_main else nn.Module()
            self._shard()
            return
        model.to(self.device)
        if world.size > 1:
            self.wrapped = nn.parallel.DistributedDataParallel(self.wrapped, gradient_as_bucket_view=True)

    def _shard(self) -> None:
        """Shard each block by itself and the rest together, from the CPU, so that no GPU ever holds the whole model."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        # It warns against changing the output of a layer in place, which we never do.
        warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module .* returned a view tensor")
        for parameter in self.model.parameters():
            self.world.broadcast(parameter.data)
        self.mesh = init_device_mesh(self.device.type, (self.world.size,))
        for stack in (module for module in self.model.modules() if isinstance(module, Stack)):
            for block in stack.blocks:
                if block.cross_attention is not None:
                    fully_shard(block.cross_attention.project, mesh=self.mesh)  # projects the memory before its block runs
                fully_shard(block, mesh=self.mesh)
        fully_shard(self.wrapped, mesh=self.mesh)

    def __call__(self, objective: Objective, batch: Any) -> Tensor:
        """Return the total of the objective. Its gradient is the mean over processes; multiply by their number for the sum."""
        return self.wrapped(objective, batch)

    def no_sync(self, last: bool) -> AbstractContextManager[None]:
        """Keep gradients local within the context; the last micro-batch sums them over processes once."""
        copies = self.world.size > 1 and not self.sharded
        return self.wrapped.no_sync() if copies and not last else nullcontext()

    @contextmanager
    def unsharded(self) -> Iterator[nn.Module]:
        """Yield the unsharded model, for use by the first process; all processes must enter."""
        if not self.sharded:
            yield self.model
            return
        gathered = self._gather(weights(self.model))
        if self.world.is_main:
            self.copy.load_state_dict(gathered)
            self.copy.to(self.device)
        yield self.copy
        self.copy.to("cpu")

    def save(self, store: Store, kind: str, step: int, parts: Parts, state: Mapping[str, Any], *, keep: int, whole: bool) -> None:
        """Save one checkpoint of all processes, sharded as they are unless `whole`, and delete all but `keep` of its kind."""
        with self.world.fail_together():
            if self.sharded and not whole:
                self._save_shards(store, kind, step, parts, state)
            else:
                gathered = {part: self._gather(tensors) for part, tensors in parts.items()}
                if self.world.is_main:
                    store.save(kind, step, gathered, state)
            if self.world.is_main:
                store.keep(kind, keep)

    def _save_shards(self, store: Store, kind: str, step: int, parts: Parts, state: Mapping[str, Any]) -> None:
        """Write shards: the first process prepares the folder and seals it; in between, all processes write into it."""
        with self.world.fail_together():
            for part, tensors in parts.items():
                require_finite_tensors(part, {name: _local(tensor) for name, tensor in tensors.items()})
        announced = False

        def write(draft: Path) -> None:
            nonlocal announced
            announced = True
            if where := self.world.broadcast_text(str(draft)):
                write_shards(Path(where), parts, self.world.is_main)

        if not self.world.is_main:
            with explain_os_errors(f"Saving this process's part of the checkpoint {kind}-{step:08d}", store.folder):
                write(Path())
            return
        try:
            store.save(kind, step, {}, state, write)
        finally:
            if not announced:
                self.world.broadcast_text("")  # the others wait for the path

    def restore(self, found: Checkpoint, optimizer: torch.optim.Optimizer) -> None:
        """Load weights and optimizer state of a checkpoint, whatever the number of processes that wrote it."""
        kept = {name: full(tensor) if is_drawn(name) else tensor for name, tensor in self._read(found, "model").items()}
        self.model.load_state_dict(kept)
        restore_optimizer(optimizer, self._read(found, "optimizer"), found.state["optimizer"])

    def _read(self, found: Checkpoint, part: str) -> dict[str, Tensor]:
        if not self.sharded:
            return found.tensors(part)
        return read_shards(found.path, part, self.mesh) if found.sharded else cut(found.tensors(part), self.mesh)

    def _gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return unsharded tensors in the first process; tied tensors stay one object."""
        if not self.sharded:
            return {name: tensor.detach() for name, tensor in tensors.items()}
        seen: dict[int, Tensor] = {}
        for tensor in tensors.values():
            if id(tensor) not in seen:
                everything = full(tensor.detach())
                seen[id(tensor)] = everything.cpu() if self.world.is_main else torch.empty(0)
        return {name: seen[id(tensor)] for name, tensor in tensors.items()}


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of a model, in which tied weights are the same object."""
    return model.state_dict(keep_vars=True)


def full(tensor: Any) -> Tensor:
    """Return the unsharded tensor; all processes must call it together."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _local(tensor: Any) -> Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
