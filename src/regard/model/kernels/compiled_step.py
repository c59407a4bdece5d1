"""A step that always does the same, compiled for a CPU: its hundreds of operations become one function of C++.

Most of the time of a small model's step on a CPU is the overhead of calling its operations. `torch.compile` calls them once. That
takes a minute or so, once for each model in a process, and a C++ compiler; so a person asks for it (`decode.compile`). The step
is the one that a GPU captures: it reads nothing on the host, and writes to buffers that stay where they are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch

from regard.core.errors import UserError
from regard.model.kernels.cuda_graph import Step

COMPILERS = ("g++", "clang++", "c++")
GRAPHS = 64  # of a step that a process may need: sizes grow with the text, and shrink as sentences end


class CompiledRecorder:
    """torch.compile. Steps of one search share a function, which is compiled again for other sizes."""

    def __init__(self, backend: str = "inductor") -> None:
        if backend == "inductor" and not any(map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))):
            raise UserError("decode.compile=true needs a C++ compiler such as g++; install one or leave it out.")
        self.backend = backend
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)
        self.compiled: WeakKeyDictionary[Any, Callable[[], None]] = WeakKeyDictionary()

    def warm_up(self, step: Step) -> None:
        """Run a step for the first time, as it is."""
        step()

    def record(self, step: Step) -> Step:
        """Return the compiled step of the search whose method `step` is. It is compiled when it is first called."""
        search = step.__self__  # type: ignore[attr-defined]
        if search not in self.compiled:
            method = type(search).advance
            # What calls the kernels is compiled, too: in Python it takes longer than the kernels of a small model.
            options: dict[str, Any] | None = {"cpp_wrapper": True} if self.backend == "inductor" else None
            self.compiled[search] = torch.compile(method, fullgraph=True, backend=self.backend, options=options)
        compiled = self.compiled[search]

        def run() -> None:
            try:
                compiled(search)  # type: ignore[call-arg]
            except torch._dynamo.exc.TorchDynamoException as error:
                reason = str(error).strip().partition("\n")[0][:200]
                raise UserError(f"decode.compile=true: this model's step cannot be compiled ({reason}); leave it out.") from error

        return run
