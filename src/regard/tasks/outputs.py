"""Files that people ask for by name: refused before the work begins if they cannot be written, and never half there."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from regard.errors import UserError
from regard.files import create, naming, open_regular
from regard.tasks.run import aside


def check_place(path: Path, option: str) -> None:
    """Whether a file can be put there; `option` is how the person named it."""
    if path.is_dir():
        raise UserError(f"{option} {path} is a folder; give the name of a file in it.")
    if not path.parent.is_dir():
        raise UserError(f"{option} {path} cannot be written: there is no folder {path.parent}. Make it, or give another file.")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{option} {path} cannot be written: {path.parent} is not yours to write in. Give another file.")


@contextmanager
def growing(path: Path, option: str) -> Iterator[IO[str]]:
    """A file that takes its name when it is whole. Until then what stood there stays, and what is ready is in NAME.part.

    Whatever ends the work before, Ctrl-C say, leaves the lines that are ready there, and it is told how many.
    """
    check_place(path, option)
    part = path.with_name(f"{path.name}.part")
    with naming(part):
        try:
            with io.TextIOWrapper(create(part), "utf-8", line_buffering=True) as file:  # a line that is ready outlives a kill
                yield file
            part.replace(path)
        except BaseException:
            if part.is_file() and (ready := _lines(part)):
                aside(f"{ready:,} line{'s' * (ready > 1)} of results {'are' if ready > 1 else 'is'} in {part}.")
            raise
        finally:
            if part.is_file() and not part.stat().st_size:
                part.unlink()


def _lines(path: Path) -> int:
    with open_regular(path) as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
