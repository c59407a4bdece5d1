"""`regard ARGUMENTS` in a process of its own that has nothing left to import: what a plugin registers there stays there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from regard.cli import main
from tests.command import Result
from tests.training.processes import context


def forked(*arguments: object, folder: Path) -> Result:
    """Run a command in a folder."""
    with TemporaryDirectory() as kept:
        out, err = Path(kept) / "out", Path(kept) / "err"
        process = context.Process(target=_run, args=(folder, out, err, [str(argument) for argument in arguments]))
        process.start()
        process.join()
        assert process.exitcode is not None
        return Result(process.exitcode, out.read_text(), err.read_text())


def _run(folder: Path, out: Path, err: Path, typed: list[str]) -> None:
    os.chdir(folder)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    torch.set_num_threads(1)
    sys.argv = ["regard", *typed]
    main()
