"""A GGUF file: named values, then a list of tensors, then their contents, all little-endian.

    "GGUF" · uint32 version (2 or 3) · uint64 number of tensors · uint64 number of values
    of each value: string name · uint32 type · content; an array has uint32 type, uint64 length and its elements
    of each tensor: string name · uint32 dimensions · uint64 sizes, the innermost first · uint32 type · uint64 place
    contents, from the next multiple of `general.alignment` (32)

A string is its uint64 length and its bytes. Numbers in blocks of 32, of which each has one float16 scale d (see ggml):

    q8_0    34 bytes: d, 32 int8 q          d q
    q4_0    18 bytes: d, 16 bytes           d (q - 8), the low halves of the bytes first, then the high ones

The file is untrusted: every length is checked against what is left of it before anything is read or allocated.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import open_regular
from regard.core.terminal import quoted

MAGIC, VERSIONS = b"GGUF", (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
BLOCK = 32
MOST_VALUES, MOST_ELEMENTS, LONGEST_STRING, MOST_DIMENSIONS = 100_000, 4_000_000, 16 * 2**20, 4
CURE = "Copy it again from where it was made."


class Encoding(NamedTuple):
    """How numbers of one type are stored."""

    name: str
    block: int  # numbers
    size: int  # bytes of a block


ENCODINGS = {0: Encoding("f32", 1, 4), 1: Encoding("f16", 1, 2), 2: Encoding("q4_0", BLOCK, 18), 8: Encoding("q8_0", BLOCK, 34)}
OTHERS = {3: "q4_1", 6: "q5_0", 7: "q5_1", 10: "q2_K", 11: "q3_K", 12: "q4_K", 13: "q5_K", 14: "q6_K", 15: "q8_K", 30: "bf16"}


class Described(NamedTuple):
    """A tensor of the file: sizes as PyTorch has them, the outermost first."""

    shape: tuple[int, ...]
    encoding: Encoding
    place: int


class Damaged(Exception):
    """Bytes that are no GGUF file."""


@dataclass(frozen=True, eq=False)
class GGUF:
    path: Path
    content: mmap.mmap
    values: dict[str, Any]
    tensors: dict[str, Described]

    def tensor(self, name: str) -> Tensor:
        """Return a tensor in float32."""
        shape, encoding, place = self.tensors[name]
        blocks = math.prod(shape) // encoding.block
        stored = np.frombuffer(self.content, np.uint8, blocks * encoding.size, place)
        return torch.from_numpy(decoded(stored, encoding)).reshape(shape)


def decoded(stored: np.ndarray, encoding: Encoding) -> np.ndarray:
    """Return numbers in float32 from the bytes of blocks."""
    if encoding.name == "f32":
        return stored.view("<f4").astype(np.float32)
    if encoding.name == "f16":
        return stored.view("<f2").astype(np.float32)
    rows = stored.reshape(-1, encoding.size)
    scale_N1 = rows[:, :2].copy().view("<f2").astype(np.float32)
    if encoding.name == "q8_0":
        return (scale_N1 * rows[:, 2:].view(np.int8)).reshape(-1)
    halves = np.concatenate([rows[:, 2:] & 15, rows[:, 2:] >> 4], 1)
    return (scale_N1 * (halves.astype(np.float32) - 8)).reshape(-1)


class _Cursor:
    """Reads the file from its start, never behind its end."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content, self.at = content, 0

    def take(self, size: int) -> bytes:
        if size > len(self.content) - self.at:
            raise Damaged(f"it ends within {size:,} bytes that should follow byte {self.at:,}")
        self.at += size
        return self.content[self.at - size : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def string(self) -> str:
        if (size := self.number("Q")) > LONGEST_STRING:
            raise Damaged(f"a text of {size:,} bytes at byte {self.at:,}")
        return self.take(size).decode("utf-8", "replace")

    def value(self, kind: int, inside: bool = False) -> Any:
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY or inside:
            raise Damaged(f"a value of the unknown type {kind} at byte {self.at:,}")
        element, length = self.number("I"), self.number("Q")
        if length > min(MOST_ELEMENTS, len(self.content) - self.at):
            raise Damaged(f"a list of {length:,} values at byte {self.at:,}")
        if element in SCALARS:
            form = f"<{length}{SCALARS[element]}"
            return list(struct.unpack(form, self.take(struct.calcsize(form))))
        return [self.value(element, inside=True) for _ in range(length)]


def read_gguf(path: Path) -> GGUF:
    """Open a file and read all but the contents of its tensors."""
    with open_regular(path) as file:
        try:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # it is empty
            raise UserError(f"{path} is empty, so it is no GGUF file. {CURE}") from None
    try:
        values, tensors = _read(_Cursor(content))
    except Damaged as error:
        raise UserError(f"{path} is no GGUF file that can be read ({quoted(str(error), 120)}). {CURE}") from None
    return GGUF(path, content, values, tensors)


def _read(cursor: _Cursor) -> tuple[dict[str, Any], dict[str, Described]]:
    if cursor.take(4) != MAGIC:
        raise Damaged("it does not begin with GGUF")
    if (version := cursor.number("I")) not in VERSIONS:
        raise Damaged(f"its version is {version}, and 2 and 3 are read")
    tensor_count, value_count = cursor.number("Q"), cursor.number("Q")
    if max(tensor_count, value_count) > MOST_VALUES:
        raise Damaged(f"it says that it has {tensor_count:,} tensors and {value_count:,} values")
    values = {}
    for _ in range(value_count):
        name = cursor.string()
        values[name] = cursor.value(cursor.number("I"))
    found = [_tensor(cursor) for _ in range(tensor_count)]
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1:
        raise Damaged(f"its alignment is {alignment!r}")
    start = -(-cursor.at // alignment) * alignment
    tensors = {name: part._replace(place=start + part.place) for name, part in found}
    if len(tensors) < tensor_count:
        raise Damaged("two tensors have the same name")
    for name, (shape, encoding, place) in tensors.items():
        if shape[-1] % encoding.block:
            raise Damaged(f"{name} has rows of {shape[-1]} numbers, and {encoding.name} has blocks of {encoding.block}")
        if place + math.prod(shape) // encoding.block * encoding.size > len(cursor.content):
            raise Damaged(f"{name} lies behind its end")
    return values, tensors


def _tensor(cursor: _Cursor) -> tuple[str, Described]:
    name, dimensions = cursor.string(), cursor.number("I")
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise Damaged(f"{quoted(name, 40)} has {dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))[::-1]
    kind, place = cursor.number("I"), cursor.number("Q")
    if kind not in ENCODINGS:
        known = ", ".join(encoding.name for encoding in ENCODINGS.values())
        raise Damaged(f"{quoted(name, 40)} is stored as {OTHERS.get(kind, f'type {kind}')}, and {known} are read")
    if not all(shape):
        raise Damaged(f"{quoted(name, 40)} has a dimension of size 0")
    return name, Described(shape, ENCODINGS[kind], place)
