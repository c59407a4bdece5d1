"""Snapshots: weights in half precision every few steps, to show how a model developed.

RUN/snapshots/step-N.safetensors. No training resumes from one, so none is verified: a snapshot is written under a temporary name
first, so that a kill leaves a complete file or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from regard.core.atomic import explain_os_errors
from regard.training.checkpoint_files import read_tensors, write_tensors

FOLDER = "snapshots"
NAME = re.compile(r"step-(\d+)\.safetensors")


def snapshots(run: Path) -> dict[int, Path]:
    """Return the snapshots of a run, by step."""
    found = {int(name[1]): path for path in (run / FOLDER).glob("step-*.safetensors") if (name := NAME.fullmatch(path.name))}
    return dict(sorted(found.items()))


def write_snapshot(run: Path, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Write a snapshot; numbers too large for float16 are clamped to its largest, since infinities would break a picture."""
    folder = run / FOLDER
    with explain_os_errors(f"Writing the snapshot of step {step}", folder):
        folder.mkdir(exist_ok=True)
        temporary = folder / f".step-{step}.tmp"
        write_tensors(temporary, _to_half(tensors))
        temporary.replace(folder / f"step-{step}.safetensors")


def read_snapshot(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a snapshot in float32."""
    return {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in read_tensors(path).items()}


def _to_half(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors in float16; tied weights stay one tensor under both names."""
    most, made = torch.finfo(torch.float16).max, dict[int, Tensor]()
    for tensor in tensors.values():
        if tensor.is_floating_point():
            made.setdefault(id(tensor), tensor.detach().float().clamp(-most, most).half())
    return {name: made.get(id(tensor), tensor) for name, tensor in tensors.items()}
