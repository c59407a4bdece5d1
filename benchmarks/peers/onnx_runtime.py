"""ONNX Runtime with a Hugging Face classifier, in a process and an environment of its own, where `onnx_runtime_there` runs it."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

import torch

from benchmarks.peers.apart import ROOT, Abroad

HOME = ROOT / ".peers" / "onnxruntime"


def ready() -> bool:
    return (HOME / ".ready").is_file()


def remark() -> str:
    """For the setting of a result, and printed where somebody may be waiting for it in vain."""
    if ready():
        return "ONNX Runtime runs in a process and an environment of its own."
    left_out = "ONNX Runtime was left out: its environment was not there ('make peers' makes it)."
    print(left_out)
    return left_out


def version() -> dict[str, str]:
    """Of what is installed there."""
    folders = [str(folder) for folder in HOME.glob("lib/python*/site-packages")]
    return {"onnxruntime": next(iter(distributions(name="onnxruntime", path=folders))).version} if ready() else {}


def classifier(folder: Path) -> Abroad:
    """ask("classify", texts, texts a batch): a row of probabilities each. The folder is read before this returns."""
    python = HOME / "bin" / "python"
    return Abroad(python, "benchmarks.peers.onnx_runtime_there", str(folder), str(torch.get_num_threads()))
