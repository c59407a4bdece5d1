"""Tensors and optimizer state in safetensors files: no pickle, and restored bit for bit.

Tied weights are written once and keep both names; any memory layout may be given. Of an optimizer, tensors go to safetensors by
name and everything else to JSON. Tensors are called `INDEX.NAME` (`3.exp_avg`: the first moment of the fourth parameter); a
hyperparameter that is itself a tensor is called `group.INDEX.NAME`. The JSON has the class of the optimizer and the shape of
each parameter, so that the state of another model or optimizer is refused before anything is changed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import open_regular

TIED = "tied"  # further name -> name, as JSON


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, not yet flushed, readable by the owner only: safetensors makes every file 0600, whatever the umask."""
    unique, aliases = _untie(tensors)
    try:
        # One metadata key, since safetensors writes several in no fixed order and equal weights must be equal bytes; and none
        # rather than {}, which with no tensors 0.8.0 writes as what it cannot read.
        save_file(unique, path, metadata={TIED: json.dumps(aliases)} if aliases else None)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))  # safetensors has the error of the operating system only as text
        if not code:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return tensors on the CPU in memory of their own; names that shared a tensor share it again."""
    open_regular(path).close()  # raises for a pipe, on which safetensors would block
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            # A clone, because safetensors may return a memory map of a file that is deleted later.
            loaded = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            aliases: dict[str, str] = json.loads((file.metadata() or {}).get(TIED, "{}"))
        return loaded | {alias: loaded[original] for alias, original in aliases.items()}
    except (SafetensorError, OSError, RuntimeError, KeyError, json.JSONDecodeError) as error:  # torch maps the file: RuntimeError
        raise UserError(f"{path} cannot be read ({error}); delete its folder to use an older one.") from error


def _untie(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return each tensor once, contiguous and on the CPU, and its further names."""
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


_PLAIN = (bool, int, float, str, type(None))


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return tensors and JSON state of an optimizer. The tensors are not copies: save them before the next step."""
    whole = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    states = {str(index): _split(f"{index}", values, tensors) for index, values in whole["state"].items()}
    groups = [_split(f"group.{index}", group, tensors) for index, group in enumerate(whole["param_groups"])]
    return tensors, {**_identity(optimizer), "states": states, "groups": groups, "tensors": sorted(tensors)}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Restore the state that `flatten_optimizer` returned; the parameters must be the same, in the same order."""
    _require_fit(optimizer, tensors, state)
    # Copies: an optimizer works in place, and the tensors belong to the caller.
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    states = {int(index): _join(index, values, copies) for index, values in state["states"].items()}
    groups = [_join(f"group.{index}", group, copies) for index, group in enumerate(state["groups"])]
    for group, live in zip(groups, optimizer.param_groups):
        group.update({key: tuple(group[key]) for key, value in live.items() if isinstance(value, tuple)})
    optimizer.load_state_dict({"state": states, "param_groups": groups})
    _undo_casts(optimizer, states)


def _split(prefix: str, values: Mapping[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Move the tensors among the values into `tensors`; return the rest, which is JSON."""
    plain = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            tensors[f"{prefix}.{name}"] = value
        elif _is_plain(value):
            plain[name] = value
        else:
            raise UserError(
                f"The optimizer keeps {name!r} as a {type(value).__name__}, which a checkpoint cannot hold; "
                "choose one whose state is tensors and numbers, such as adamw or sgd."
            )
    return plain


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, (list, tuple)) and all(isinstance(x, _PLAIN) for x in value))


def _join(prefix: str, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    start = f"{prefix}."
    return {**plain, **{name[len(start) :]: tensors[name] for name in tensors if name.startswith(start)}}


def _identity(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    shapes = [[list(parameter.shape) for parameter in group["params"]] for group in optimizer.param_groups]
    return {"optimizer": type(optimizer).__name__, "shapes": shapes}


def _require_fit(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    missing = {"optimizer", "shapes", "states", "groups", "tensors"} - state.keys()
    if missing:
        raise UserError(f"The checkpoint's optimizer state lacks {', '.join(sorted(missing))}; it is not one of ours.")
    here = _identity(optimizer)
    if state["optimizer"] != here["optimizer"]:
        raise UserError(
            f"The checkpoint was saved with the optimizer {state['optimizer']}, this run uses {here['optimizer']}; "
            "use the same one, or start a new run."
        )
    if state["shapes"] != here["shapes"]:
        raise UserError(
            f"The checkpoint's optimizer state does not fit this model ({_mismatch(state['shapes'], here['shapes'])}); "
            "use the recipe it was saved with, or start a new run."
        )
    different = sorted(set(state["tensors"]) ^ tensors.keys())
    if different:
        raise UserError(f"The checkpoint's optimizer tensors and their list differ at {different[0]!r}; use another checkpoint.")


def _mismatch(saved: list[list[list[int]]], here: list[list[list[int]]]) -> str:
    for group, (theirs, ours) in enumerate(zip(saved, here)):
        for index, (their, our) in enumerate(zip(theirs, ours)):
            if their != our:
                return f"parameter {index} of group {group} is {their} there and {our} here"
    count = [f"{sum(map(len, groups))} parameters in {len(groups)} groups" for groups in (saved, here)]
    return f"{count[0]} there, {count[1]} here"


def _undo_casts(optimizer: torch.optim.Optimizer, states: Mapping[int, Mapping[str, Any]]) -> None:
    """Undo the cast of restored state to its parameter's dtype by PyTorch; moments may have another precision."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in states.items():
        live = optimizer.state[parameters[index]]
        for name, value in values.items():
            if isinstance(value, Tensor) and live[name].dtype != value.dtype:
                live[name] = value.to(live[name].device)
