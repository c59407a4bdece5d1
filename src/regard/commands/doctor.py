"""`regard doctor`: is this machine ready, and with what? Versions, devices, disk, permissions, optional packages."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("regard", "torch", "numpy", "tokenizers", "safetensors", "huggingface_hub", "sacrebleu", "matplotlib")
EXTRAS = {
    "data": "datasets",
    "serve": "fastapi",
    "structured": "llguidance",
    "energy": "codecarbon",
    "export": "onnxruntime",
    "ray": "ray",
}


def examine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "extras": {extra: find_spec(package) is not None for extra, package in EXTRAS.items()},
        "cpu": {
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "onednn": torch.backends.mkldnn.is_available(),
        },
        "cuda": [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())],
        "bf16": torch.cuda.is_bf16_supported() if torch.cuda.is_available() else False,
        "compiler": shutil.which("c++") or shutil.which("g++") or shutil.which("clang++") or "",
        "disk_free_gib": round(shutil.disk_usage(".").free / 2**30, 1),
        "folder_writable": _writable(Path()),
    }


def report(findings: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in findings["packages"].items())
    extras = ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in findings["extras"].items())
    cpu = findings["cpu"]
    packing = "oneDNN" if cpu["onednn"] else "no oneDNN: decoding will be slower"
    folder = "this folder can be written" if findings["folder_writable"] else "this folder CANNOT be written"
    lines = [
        f"python     {findings['python']} on {findings['system']}",
        f"packages   {packages}",
        f"extras     {extras}",
        f"cpu        {cpu['cores']} cores, {cpu['threads']} threads, {cpu['instructions']}, {packing}",
        f"cuda       {', '.join(findings['cuda']) or 'none'}" + ("; bf16 yes" if findings["bf16"] else ""),
        f"compiler   {findings['compiler'] or 'none found: train.compile=true needs one on a CPU'}",
        f"disk       {findings['disk_free_gib']} GiB free; {folder}",
    ]
    return "\n".join(lines)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
