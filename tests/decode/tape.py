"""A CUDA graph without CUDA: records which operations a step performs on which memory, and repeats them without the step.

As in a real capture, recording changes nothing, no Python runs at replay, and a number that the host computed stays what it was.
And it refuses what a capture would refuse, or what would make the host wait: reading a tensor's values, or making one from the
host's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

WAITS = (
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "is_nonzero",
    "equal",
    "unique",
    "lift_fresh",
    "scalar_tensor",
    "where.Sc",
)


class Tape(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]] = []
        self.before: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::")
        assert not name.startswith(WAITS), f"{name} waits for the device"
        picks = args[1] if name.startswith("index") and len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
        assert not any(isinstance(i, Tensor) and i.dtype == torch.bool for i in picks), f"{name} counts on the host"
        arguments = {**dict(zip((argument.name for argument in func._schema.arguments), args)), **kwargs}
        aliases = {argument.name: argument.alias_info for argument in func._schema.arguments if argument.alias_info}
        written = [arguments[name] for name, alias in aliases.items() if alias.is_write]
        self.before += [(tensor, tensor.clone()) for tensor in written]
        out = func(*args, **kwargs)
        if written or not aliases:  # a view stays one
            self.calls.append((func, args, kwargs, None if written else out))
        return out

    def rewind(self) -> None:
        for tensor, old in reversed(self.before):
            tensor.copy_(old)

    def replay(self) -> None:
        for func, args, kwargs, out in self.calls:
            again = func(*args, **kwargs)
            if out is not None:
                outs, agains = ((x if isinstance(x, (list, tuple)) else [x]) for x in (out, again))
                for old, new in zip(outs, agains):
                    if isinstance(old, Tensor):
                        old.copy_(new)


class TapeRecorder:
    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def warm_up(self, step: Callable[[], None]) -> None:
        step()

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        self.recorded += 1
        with Tape() as tape:
            step()
        tape.rewind()

        def replay() -> None:
            self.replayed += 1
            tape.replay()

        return replay
