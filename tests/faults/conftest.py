"""What every campaign needs: a folder to spoil, one thread before anything is forked, and no pictures of losses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.faults.place import workplace


@pytest.fixture
def place() -> Iterator[Path]:
    with workplace() as folder:
        yield folder


@pytest.fixture(autouse=True)
def one_thread_and_no_pictures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr("regard.training.logging.draw_curves", lambda records, path: None)
    yield
    torch.set_num_threads(threads)
