"""Snapshots: the weights every so many steps, in half precision and nothing besides, to look at how a model came to be.

RUN/snapshots/step-N.safetensors. No training continues from one and nothing seals it: it is written under another name first, so
that a kill leaves a whole file or none, and that is all it needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from regard.core.atomic import explain_os_errors
from regard.training.tensors import read_tensors, write_tensors

FOLDER = "snapshots"
NAME = re.compile(r"step-(\d+)\.safetensors")


def snapshots(run: Path) -> dict[int, Path]:
    """Those a run has, by their step."""
    found = {int(name[1]): path for path in (run / FOLDER).glob("step-*.safetensors") if (name := NAME.fullmatch(path.name))}
    return dict(sorted(found.items()))


def write_snapshot(run: Path, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Numbers too large for float16 are kept at its largest: a picture needs no more, and infinities would break it."""
    folder = run / FOLDER
    with explain_os_errors(f"Writing the snapshot of step {step}", folder):
        folder.mkdir(exist_ok=True)
        temporary = folder / f".step-{step}.tmp"
        write_tensors(temporary, _halved(tensors))
        temporary.replace(folder / f"step-{step}.safetensors")


def read_snapshot(path: Path) -> dict[str, Tensor]:
    """In float32, as models compute."""
    return {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in read_tensors(path).items()}


def _halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tied weights stay one tensor under both names."""
    most, made = torch.finfo(torch.float16).max, dict[int, Tensor]()
    for tensor in tensors.values():
        if tensor.is_floating_point():
            made.setdefault(id(tensor), tensor.detach().float().clamp(-most, most).half())
    return {name: made.get(id(tensor), tensor) for name, tensor in tensors.items()}
