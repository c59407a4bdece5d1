"""Sharded checkpoints: every process writes its shard of each tensor; reading joins the shards.

PyTorch's distributed checkpoint (DCP) plans what each process writes and reads. Its usual format keeps that plan as a pickle, so
this is its other one: `shard-R-*.safetensors` for each process, with the offset of every tensor. Any number of processes can read
what any other number wrote. Names are `part.name`; tied weights are written once, and `shards.json` has
their other names.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.training.manifest import canonical, read_json, write_text

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

INDEX = "shards.json"


def write_shards(folder: Path, parts: Mapping[str, Mapping[str, Tensor]], leads: bool) -> None:
    """Write the shard of this process to disk; all processes must call it."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
    tied = _tied(tensors)
    unique = {name: tensor.detach() for name, tensor in tensors.items() if name not in tied}
    try:
        dcp.save(unique, storage_writer=dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except CheckpointException as error:
        raise _cause(error) from error
    if leads:
        write_text(folder / INDEX, canonical({"tied": tied}))


def is_sharded(folder: Path) -> bool:
    return (folder / INDEX).is_file()


def parts_of(folder: Path) -> list[str]:
    return sorted({name.partition(".")[0] for name in _sizes(folder)})


def read_shards(folder: Path, part: str, mesh: DeviceMesh | None = None) -> dict[str, Tensor]:
    """Return the tensors of a part: unsharded on the CPU or, with a mesh, the shard of each process; all must call it."""
    import torch.distributed.checkpoint as dcp

    sizes = {name: size for name, size in _sizes(folder).items() if name.startswith(f"{part}.")}
    tensors = {name: _empty(*size, mesh) for name, size in sizes.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # as intended
        dcp.load(tensors, storage_reader=dcp.HuggingFaceStorageReader(str(folder)), no_dist=mesh is None)
    tied = {alias: name for alias, name in read_json(folder / INDEX)["tied"].items() if name in tensors}
    return _without(part, tensors | {alias: tensors[name] for alias, name in tied.items()})


def _sizes(folder: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    import torch.distributed.checkpoint as dcp

    found = dcp.HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    return {name: (meta.size, meta.properties.dtype) for name, meta in found.items()}  # type: ignore[union-attr]


def _empty(size: torch.Size, dtype: torch.dtype, mesh: DeviceMesh | None) -> Tensor:
    """Return an empty tensor, sharded along the first dimension as FSDP does; a scalar is not sharded."""
    if mesh is None or not size:
        return torch.empty(size, dtype=dtype)
    from torch.distributed.tensor import Shard, empty

    return empty(size, dtype=dtype, device_mesh=mesh, placements=[Shard(0)])


def cut(tensors: Mapping[str, Tensor], mesh: DeviceMesh) -> dict[str, Tensor]:
    """Return the shard of this process of tensors that every process has unsharded."""
    from torch.distributed.tensor import Shard, distribute_tensor

    return {
        name: distribute_tensor(tensor, mesh, [Shard(0)], src_data_rank=None) if tensor.dim() else tensor
        for name, tensor in tensors.items()
    }


def _tied(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Map further names of tied parameters to the first. By identity: a shard may be empty and have no memory to compare."""
    first: dict[int, str] = {}
    return {name: kept for name, tensor in tensors.items() if (kept := first.setdefault(id(tensor), name)) != name}


def _without(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items()}


def _cause(error: BaseException) -> BaseException:
    """Return the cause inside the exception of DCP, so that a full disk is reported as such."""
    failures: Iterable[tuple[BaseException, object]] = getattr(error, "failures", {}).values()
    return next((cause for cause, _ in failures if isinstance(cause, OSError)), error)
