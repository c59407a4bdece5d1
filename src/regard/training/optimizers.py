"""Optimizers, their learning rate and their saved state.

Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019) have torch's fused kernels.

Muon (Jordan et al. 2024): the step of a matrix is its momentum, orthogonalised. It is for the matrices inside blocks only;
embeddings, biases and norms keep AdamW. Steps are scaled to the length of AdamW's (Liu et al. 2025, section 2.2), so one learning
rate serves both. Dims: N matrices of one shape, O outputs, I inputs.

The learning rate is a linear warm-up to the peak, then a decay. `inverse_sqrt` is the paper's (Vaswani et al. 2017, equation 3):
d^-0.5 min(step^-0.5, step warmup^-1.5), whose peak is (d warmup)^-0.5, 7.0e-4 for base. `cosine` and `linear` end near zero at
the last step.

Saved, tensors go to safetensors by name and everything else to JSON. Tensors are called `INDEX.NAME` (`3.exp_avg`: the first
moment of the fourth parameter); a hyperparameter that is itself a tensor is called `group.INDEX.NAME`. The JSON has the class of
the optimizer and the shape of each parameter, so that the state of another model or optimizer is refused before anything is
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import cos, pi
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.block import Stack
from regard.training.config import TrainConfig


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    learned = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in learned if p.dim() >= 2]
    others = [p for p in learned if p.dim() < 2]
    if config.optimizer == "muon":
        blocks = [p for module in model.modules() if isinstance(module, Stack) for p in module.parameters()]
        inner = [p for p in blocks if p.dim() == 2 and p.requires_grad]
        matrices = [p for p in matrices if not any(p is q for q in inner)]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    adam = dict(lr=0.0, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=True)
    if config.optimizer == "muon":
        return Muon(inner, groups, config.weight_decay, **adam)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    return kind(groups, **adam)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


@contextmanager
def rate_on_device(optimizer: torch.optim.Optimizer, rate: Tensor) -> Iterator[None]:
    """Read the learning rate from a tensor on the device within the context, so that a captured step uses the current one."""
    before = [(group["lr"], group["capturable"]) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"], group["capturable"] = rate, True
    try:
        yield
    finally:
        for group, (was, capturable) in zip(optimizer.param_groups, before):
            group["lr"], group["capturable"] = was, capturable


MOMENTUM = 0.95
COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of a quintic polynomial that moves singular values near 1 in few rounds
ROUNDS = 5
LENGTH = 0.2  # of a step of AdamW, root mean square


class Muon(torch.optim.AdamW):
    """Muon for matrices, AdamW for all other parameters."""

    def __init__(self, matrices: Sequence[nn.Parameter], others: list[dict[str, Any]], weight_decay: float, **adam: Any) -> None:
        super().__init__([*others, {"params": list(matrices), "weight_decay": weight_decay, "orthogonal": True}], **adam)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        groups = self.param_groups
        try:
            self.param_groups = [group for group in groups if not group.get("orthogonal")]
            super().step()
        finally:
            self.param_groups = groups
        for group in groups:
            if group.get("orthogonal"):
                self._step(group)

    def _step(self, group: dict[str, Any]) -> None:
        alike: dict[torch.Size, list[Tensor]] = {}
        for weight in group["params"]:
            if weight.grad is not None:
                alike.setdefault(weight.shape, []).append(weight)
        lost = getattr(self, "found_inf", None)
        for shape, weights in alike.items():
            steps_NOI = LENGTH * max(shape) ** 0.5 * orthogonal(torch.stack([self._momentum(weight) for weight in weights]))
            for weight, step in zip(weights, steps_NOI):
                step = group["lr"] * (step + group["weight_decay"] * weight)
                weight.sub_(step if lost is None else torch.where(lost > 0, 0.0, step))

    def _momentum(self, weight: Tensor) -> Tensor:
        """Return the Nesterov momentum of a weight."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["momentum"], state["step"] = torch.zeros_like(weight), torch.zeros(())  # AdamW restores no state without a step
        state["step"] += 1
        state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
        return weight.grad.lerp(state["momentum"], MOMENTUM)


def orthogonal(matrices_NOI: Tensor) -> Tensor:
    """Return each matrix as about U V^T of its singular value decomposition, by Newton-Schulz iteration, in bfloat16 on a GPU."""
    x = matrices_NOI.bfloat16() if matrices_NOI.is_cuda else matrices_NOI
    wide = x.shape[1] <= x.shape[2]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    first, second, third = COEFFICIENTS
    for _ in range(ROUNDS):
        squares = x @ x.mT
        x = first * x + (second * squares + third * squares @ squares) @ x
    return (x if wide else x.mT).to(matrices_NOI.dtype)


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate of step 1, 2, ... of the run."""
    peak, warmup = config.learning_rate, config.warmup_steps
    if step < warmup:
        return peak * step / warmup
    if config.schedule == "inverse_sqrt":
        return peak * (max(warmup, 1) / step) ** 0.5
    done = (step - warmup) / (config.steps - warmup + 1)
    if config.schedule == "cosine":
        return peak * (1 + cos(pi * done)) / 2
    return peak * (1 - done) if config.schedule == "linear" else peak


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
