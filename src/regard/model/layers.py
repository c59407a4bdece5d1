"""Every layer's vectors, for whoever looks: what goes into a stack, and what each of its layers makes of it.

The hooks are there inside the with-block only, so a pass that nobody looks at costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from regard.model.stack import Stack


@contextmanager
def layers(stack: Stack) -> Iterator[list[Tensor]]:
    """N + 1 tensors x_BLD of the latest pass through N layers, the embedding first.

    The last is what the stack gives: where it ends with a norm of its own, after that.
    """
    seen: list[Tensor] = []

    def begin(module: nn.Module, given: tuple[Any, ...]) -> None:
        seen[:] = [given[0]]

    def keep(module: nn.Module, given: tuple[Any, ...], x_BLD: Tensor) -> None:
        seen.append(x_BLD)

    handles = [stack.register_forward_pre_hook(begin), stack.register_forward_hook(keep)]
    handles += [block.register_forward_hook(keep) for block in stack.blocks[:-1]]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
