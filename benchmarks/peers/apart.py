"""A contender in a process of its own: some libraries slow down whoever shares a process with them.

CTranslate2 brings an OpenMP runtime; once it has run, PyTorch's products in the same process take half as long again.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Apart:
    """`build(*arguments)` is called over there and gives the contender; calling this calls it, and waits."""

    def __init__(self, build: Callable[..., Callable[[Any], Any]], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.ours, theirs = context.Pipe()
        context.Process(target=_serve, args=(theirs, build, arguments), daemon=True).start()

    def __call__(self, given: Any) -> Any:
        self.ours.send(given)
        return self.ours.recv()


def _serve(pipe: Any, build: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...]) -> None:
    contender = build(*arguments)
    with suppress(EOFError):  # nobody asks any more
        while True:
            pipe.send(contender(pipe.recv()))
