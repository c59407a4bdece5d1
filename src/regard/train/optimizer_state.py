"""An optimizer without pickle: its tensors by name for safetensors, everything else as JSON, and back bit for bit.

Tensors are called `INDEX.NAME` (`3.exp_avg`: the first moment of the fourth parameter); a hyperparameter that is
itself a tensor is called `group.INDEX.NAME`. The JSON remembers the optimizer's kind and each parameter's shape, so
that the state of another model or optimizer is refused before anything is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError

_PLAIN = (bool, int, float, str, type(None))


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors are the optimizer's own, not copies: save them before the next step."""
    whole = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    states = {str(index): _split(f"{index}", values, tensors) for index, values in whole["state"].items()}
    groups = [_split(f"group.{index}", group, tensors) for index, group in enumerate(whole["param_groups"])]
    return tensors, {**_identity(optimizer), "states": states, "groups": groups, "tensors": sorted(tensors)}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Continue exactly where `flatten_optimizer` looked; the parameters must be the same, in the same order."""
    _require_fit(optimizer, tensors, state)
    # Copies: an optimizer works in place, and the caller's tensors are the checkpoint's.
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    states = {int(index): _join(index, values, copies) for index, values in state["states"].items()}
    groups = [_join(f"group.{index}", group, copies) for index, group in enumerate(state["groups"])]
    for group, live in zip(groups, optimizer.param_groups):
        group.update({key: tuple(group[key]) for key, value in live.items() if isinstance(value, tuple)})
    optimizer.load_state_dict({"state": states, "param_groups": groups})
    _undo_casts(optimizer, states)


def _split(prefix: str, values: Mapping[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Move the tensors among the values into `tensors`; what is left is JSON."""
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
    """PyTorch casts restored state to its parameter's dtype; moments kept in another precision must come back in it."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in states.items():
        live = optimizer.state[parameters[index]]
        for name, value in values.items():
            if isinstance(value, Tensor) and live[name].dtype != value.dtype:
                live[name] = value.to(live[name].device)
