"""`model.bin`, the file of CTranslate2's weights: named variables, little-endian, one behind the other.

    uint32 version of the file · string name and uint32 revision of the kind of model · uint32 number of variables
    of each variable: string name · uint8 rank · uint32 sizes · uint8 type · uint32 bytes · content
    uint32 number of aliases · of each: string name · string of the variable that it is another name of

A string is its uint16 length, its bytes and a zero, which the length counts. Numbers are variables without sizes.

Quantised to int8, each row of a matrix is divided by its largest absolute value and multiplied by 127; the row's factor is the
variable `weight_scale` beside it. CTranslate2 finds the factors of an alias by itself.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import create_file, name_os_errors

VERSION = 6
TYPES = {torch.float32: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.float16: 4, torch.bfloat16: 5}
LARGEST = 2**32  # bytes of a variable


class Precision(NamedTuple):
    """How matrices are stored, and all other numbers."""

    matrices: torch.dtype
    others: torch.dtype


PRECISIONS = {
    "float32": Precision(torch.float32, torch.float32),
    "float16": Precision(torch.float16, torch.float16),
    "bfloat16": Precision(torch.bfloat16, torch.bfloat16),
    "int8": Precision(torch.int8, torch.float32),
    "int8_float16": Precision(torch.int8, torch.float16),
    "int8_bfloat16": Precision(torch.int8, torch.bfloat16),
}
LAST_NAMES = ("weight",)  # of the matrices of linear layers and embeddings, which are quantised


def write_model(path: Path, kind: str, revision: int, variables: Mapping[str, Tensor], precision: Precision) -> None:
    """Write the variables of a model; those with equal contents are stored once, under the name that comes first."""
    stored, aliases = _without_repetition(variables)
    ready: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        ready |= _converted(name, tensor, precision)
    with name_os_errors(path), create_file(path) as file:
        file.write(struct.pack("<I", VERSION))
        _write_string(file, kind)
        file.write(struct.pack("<II", revision, len(ready)))
        for name in sorted(ready):
            _write_variable(file, name, ready[name])
        file.write(struct.pack("<I", len(aliases)))
        for alias, name in aliases.items():
            _write_string(file, alias)
            _write_string(file, name)


def _without_repetition(variables: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the variables to store, and the names of those that equal one of them."""
    stored, aliases, first = dict[str, Tensor](), dict[str, str](), dict[tuple[object, ...], str]()
    for name in sorted(variables):
        tensor = variables[name].detach().cpu().contiguous()
        digest = hashlib.sha256(_content(tensor)).digest()
        same = first.setdefault((tensor.dtype, tuple(tensor.shape), digest, name.rpartition("/")[2] in LAST_NAMES), name)
        if tensor.dim() and same != name:
            aliases[name] = same
        else:
            stored[name] = tensor
    return stored, aliases


def _converted(name: str, tensor: Tensor, precision: Precision) -> dict[str, Tensor]:
    if not tensor.dim() or not tensor.is_floating_point():
        return {name: tensor}
    if name.rpartition("/")[2] not in LAST_NAMES:
        return {name: tensor.to(precision.others)}
    if precision.matrices != torch.int8:
        return {name: tensor.to(precision.matrices)}
    largest_N = tensor.float().abs().amax(1)
    largest_N = torch.where(largest_N == 0, 127.0, largest_N).clamp(min=127 / torch.finfo(torch.float32).max)
    scale_N = 127 / largest_N
    return {name: (tensor.float() * scale_N[:, None]).round().to(torch.int8), f"{name}_scale": scale_N}


def _write_variable(file: BinaryIO, name: str, tensor: Tensor) -> None:
    size = tensor.numel() * tensor.element_size()
    if size >= LARGEST:
        raise UserError(f"{name} has {size:,} bytes, and CTranslate2 reads at most {LARGEST:,} of one; use --quantization.")
    _write_string(file, name)
    file.write(struct.pack(f"<B{tensor.dim()}I", tensor.dim(), *tensor.shape))
    file.write(struct.pack("<BI", TYPES[tensor.dtype], size))
    file.write(_content(tensor.contiguous()))


def _write_string(file: BinaryIO, text: str) -> None:
    content = text.encode()
    file.write(struct.pack("<H", len(content) + 1) + content + b"\0")


def _content(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data
