"""Named tensors in one safetensors file: tied weights are written once and keep both names; any layout may be given."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import UserError
from regard.files import open_regular

TIED = "tied"  # further name -> name, as JSON


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Not yet flushed, and readable by its owner only: safetensors makes every file 0600, whatever the umask."""
    unique, aliases = _untie(tensors)
    try:
        # One metadata key, since safetensors writes several in no fixed order and equal weights must be equal bytes; and none
        # rather than {}, which with no tensors 0.8.0 writes as what it cannot read.
        save_file(unique, path, metadata={TIED: json.dumps(aliases)} if aliases else None)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))  # safetensors tells the operating system's reason only in words
        if not code:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """On the CPU, in memory of their own; names that shared a tensor share it again."""
    open_regular(path).close()  # safetensors would wait for a pipe
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            # A clone, because what safetensors hands out may be a map of a file that is deleted tomorrow.
            loaded = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            aliases: dict[str, str] = json.loads((file.metadata() or {}).get(TIED, "{}"))
        return loaded | {alias: loaded[original] for alias, original in aliases.items()}
    except (SafetensorError, OSError, RuntimeError, KeyError, json.JSONDecodeError) as error:  # torch maps the file: RuntimeError
        raise UserError(f"{path} cannot be read ({error}); delete its folder to use an older one.") from error


def _untie(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, dense and on the CPU, and its further names."""
    unique: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        view = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and view in first:
            aliases[name] = first[view]
            continue
        first[view] = name
        dense = tensor.detach().cpu().contiguous()
        storage = dense.untyped_storage()
        if storage.data_ptr() in storages or storage.nbytes() != dense.nbytes:
            dense = dense.clone()  # a part of a larger storage, or another view of one already taken
        storages.add(dense.untyped_storage().data_ptr())
        unique[name] = dense
    return unique, aliases
