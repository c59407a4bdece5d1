"""Files that people ask for by name: refused before the work begins if they cannot be written, and never half there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from regard.errors import UserError


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
    """A file that takes its name when it is whole. Until then what stood there stays, and what is ready is in NAME.part."""
    check_place(path, option)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(path)
    finally:
        if part.exists() and not part.stat().st_size:
            part.unlink()
