"""A model over several processes: a copy in each, whose gradients are summed (DDP), or a part of it in each (FSDP2).

Both act where a module is called, and an objective calls a model in its own ways; so both are laid around `Asked`, one small
module that asks the objective. Parameters keep their names, and one process needs nothing of this.
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

from regard.core.atomic import explained
from regard.model.block import Stack
from regard.model.mixers.feature_maps import is_drawn
from regard.objectives.base import Objective
from regard.training.checkpoint import Checkpoint, Store, require_finite_tensors
from regard.training.distributed import ALONE, World
from regard.training.sharded import cut, read_shards, write_shards
from regard.training.tensors import restore_optimizer

Parts = Mapping[str, Mapping[str, Tensor]]


class Asked(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, objective: Objective, batch: Any) -> Tensor:
        return objective(self.model, batch).total


class ParallelModel:
    """Made before the optimizer, which is to hold the parameters as they are spread."""

    def __init__(self, model: nn.Module, world: World = ALONE, shard: bool = False, device: torch.device | None = None) -> None:
        self.model, self.world = model, world
        self.sharded = shard and world.size > 1
        self.device = device or next(model.parameters()).device
        self.mesh: Any = None
        self.asked: Any = Asked(model)
        if self.sharded:
            self.copy = copy.deepcopy(model) if world.leads else nn.Module()
            self._shard()
            return
        model.to(self.device)
        if world.size > 1:
            self.asked = nn.parallel.DistributedDataParallel(self.asked, gradient_as_bucket_view=True)

    def _shard(self) -> None:
        """Each block is gathered when its turn comes, everything else at once; from the CPU, so that no GPU ever holds it all."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        # It warns that nobody may change a layer's output in place; nobody does.
        warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module .* returned a view tensor")
        for parameter in self.model.parameters():
            self.world.given(parameter.data)
        self.mesh = init_device_mesh(self.device.type, (self.world.size,))
        for stack in (module for module in self.model.modules() if isinstance(module, Stack)):
            for block in stack.blocks:
                if block.cross_attention is not None:
                    fully_shard(block.cross_attention.project, mesh=self.mesh)  # looks at the memory before its block's turn
                fully_shard(block, mesh=self.mesh)
        fully_shard(self.asked, mesh=self.mesh)

    def __call__(self, objective: Objective, batch: Any) -> Tensor:
        """The objective's total. Its gradient will be the mean over the processes, so multiply by their number for the sum."""
        return self.asked(objective, batch)

    def alone(self, last: bool) -> AbstractContextManager[None]:
        """In here copies keep their gradients to themselves, until the last micro-batch sums them once."""
        copies = self.world.size > 1 and not self.sharded
        return self.asked.no_sync() if copies and not last else nullcontext()

    @contextmanager
    def whole(self) -> Iterator[nn.Module]:
        """The model as one, for the first process to do with as it likes: shards must be asked by all processes alike."""
        if not self.sharded:
            yield self.model
            return
        gathered = self._gathered(weights(self.model))
        if self.world.leads:
            self.copy.load_state_dict(gathered)
            self.copy.to(self.device)
        yield self.copy
        self.copy.to("cpu")

    def save(self, store: Store, kind: str, step: int, parts: Parts, state: Mapping[str, Any], *, keep: int, whole: bool) -> None:
        """One checkpoint of all processes, in shards if they hold shards, unless it is to be `whole`; of its kind `keep` stay."""
        with self.world.as_one():
            if self.sharded and not whole:
                self._save_shards(store, kind, step, parts, state)
            else:
                gathered = {part: self._gathered(tensors) for part, tensors in parts.items()}
                if self.world.leads:
                    store.save(kind, step, gathered, state)
            if self.world.leads:
                store.keep(kind, keep)

    def _save_shards(self, store: Store, kind: str, step: int, parts: Parts, state: Mapping[str, Any]) -> None:
        """The first process prepares the folder and seals it; in between, all write into it."""
        with self.world.as_one():
            for part, tensors in parts.items():
                require_finite_tensors(part, {name: _local(tensor) for name, tensor in tensors.items()})
        told = False

        def write(draft: Path) -> None:
            nonlocal told
            told = True
            if where := self.world.tell(str(draft)):
                write_shards(Path(where), parts, self.world.leads)

        if not self.world.leads:
            with explained(f"Saving this process's part of the checkpoint {kind}-{step:08d}", store.folder):
                write(Path())
            return
        try:
            store.save(kind, step, {}, state, write)
        finally:
            if not told:
                self.world.tell("")  # the others wait to hear where to write

    def restore(self, found: Checkpoint, optimizer: torch.optim.Optimizer) -> None:
        """Weights and moments of a checkpoint, however many processes wrote it."""
        kept = {name: full(tensor) if is_drawn(name) else tensor for name, tensor in self._read(found, "model").items()}
        self.model.load_state_dict(kept)
        restore_optimizer(optimizer, self._read(found, "optimizer"), found.state["optimizer"])

    def _read(self, found: Checkpoint, part: str) -> dict[str, Tensor]:
        if not self.sharded:
            return found.tensors(part)
        return read_shards(found.path, part, self.mesh) if found.sharded else cut(found.tensors(part), self.mesh)

    def _gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole, in the first process; tied ones stay one."""
        if not self.sharded:
            return {name: tensor.detach() for name, tensor in tensors.items()}
        seen: dict[int, Tensor] = {}
        for tensor in tensors.values():
            if id(tensor) not in seen:
                everything = full(tensor.detach())
                seen[id(tensor)] = everything.cpu() if self.world.leads else torch.empty(0)
        return {name: seen[id(tensor)] for name, tensor in tensors.items()}


def weights(model: nn.Module) -> dict[str, Tensor]:
    """By name; those that are tied are the same object."""
    return model.state_dict(keep_vars=True)


def full(tensor: Any) -> Tensor:
    """All of a tensor of which every process has a shard; all processes ask together."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _local(tensor: Any) -> Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
