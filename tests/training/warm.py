"""One training for the process that forks those of `tests.training.processes`: none of them has anything left to import."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed.checkpoint
import torch.distributed.fsdp

from tests.command import regard, tiny

torch.set_num_threads(1)
with TemporaryDirectory() as folder:
    ended = regard("train", tiny(), "train.steps=1", "--device", "cpu", "--out", Path(folder) / "run")
    assert ended.code == 0, ended.err
