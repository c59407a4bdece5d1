"""A folder for one campaign: in memory where there is such a place, because what is tested is not the disk's speed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def workplace() -> Iterator[Path]:
    """Open to every user, so that a test run by root can look at it as nobody."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(prefix="regard-faults-", dir=memory if os.access(memory, os.W_OK) else None) as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder
