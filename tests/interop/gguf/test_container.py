"""GGUF files cut short, changed and made up: each is refused in a sentence, whatever is wrong."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize, quantize

from regard.core.errors import UserError
from regard.interop.gguf.container import ENCODINGS, decoded, read_gguf
from regard.interop.gguf.models import read_model
from tests.interop.gguf.files import TYPES, llama_file


@pytest.mark.parametrize("number", ENCODINGS)
def test_numbers_are_those_of_the_library(number: int) -> None:
    encoding = ENCODINGS[number]
    kind = gguf.GGMLQuantizationType(number)
    assert TYPES[encoding.name] == kind
    stored = quantize(np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32), kind)
    found = decoded(np.ascontiguousarray(stored).view(np.uint8).reshape(-1), encoding)
    np.testing.assert_array_equal(found.reshape(5, 64), dequantize(stored, kind))


def test_values_and_tensors_are_those_of_the_library(tmp_path: Path) -> None:
    path = llama_file(tmp_path / "tiny.gguf", "q4_0")
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    assert {name: list(part.shape) for name, part in ours.tensors.items()} == {
        tensor.name: [int(size) for size in tensor.shape[::-1]] for tensor in theirs.tensors
    }
    for tensor in theirs.tensors:
        found = ours.tensor(tensor.name).numpy()
        np.testing.assert_array_equal(found.reshape(-1), dequantize(tensor.data, tensor.tensor_type).reshape(-1))
    assert ours.values["tokenizer.ggml.tokens"][3:5] == ["<0x00>", "<0x01>"]


def header(version: int = 3, tensors: int = 0, values: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, values)


def text(name: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name


TENSOR = text(b"a") + struct.pack("<IQ", 1, 32)
BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is empty"),
    "other": (b"PK\x03\x04" + bytes(40), "does not begin with GGUF"),
    "version": (header(9), "version is 9"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version is 50331648"),
    "short": (header()[:10], "ends within"),
    "many tensors": (header(tensors=2**40), "says that it has"),
    "many values": (header(values=2**40), "says that it has"),
    "long name": (header(values=1) + struct.pack("<Q", 2**60), "a text of"),
    "unknown type": (header(values=1) + text(b"a") + struct.pack("<I", 99), "unknown type 99"),
    "endless list": (header(values=1) + text(b"a") + struct.pack("<IIQ", 9, 4, 2**50), "a list of"),
    "list of lists": (header(values=1) + text(b"a") + struct.pack("<IIQ", 9, 9, 1) + bytes(9), "unknown type 9"),
    "dimensions": (header(tensors=1) + text(b"a") + struct.pack("<I", 90), "90 dimensions"),
    "no size": (header(tensors=1) + text(b"a") + struct.pack("<IQIQ", 1, 0, 0, 0), "size 0"),
    "q4_K": (header(tensors=1) + TENSOR + struct.pack("<IQ", 12, 0), "stored as q4_K"),
    "type": (header(tensors=1) + TENSOR + struct.pack("<IQ", 77, 0), "stored as type 77"),
    "behind its end": (header(tensors=1) + TENSOR + struct.pack("<IQ", 0, 2**40), "lies behind its end"),
    "half a block": (header(tensors=1) + text(b"a") + struct.pack("<IQIQ", 1, 33, 8, 0) + bytes(99), "blocks of 32"),
    "twice": (header(tensors=2) + 2 * (TENSOR + struct.pack("<IQ", 0, 0)) + bytes(999), "the same name"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(BAD[name][0])
    with pytest.raises(UserError, match=BAD[name][1]):
        read_gguf(path)


def test_a_file_cut_anywhere_or_with_other_bytes_is_read_or_refused(tmp_path: Path) -> None:
    """Never anything but a sentence; contents of tensors may be any numbers."""
    whole = llama_file(tmp_path / "tiny.gguf", "q8_0").read_bytes()
    draw, path = random.Random(0), tmp_path / "bad.gguf"
    for trial in range(60):
        content = bytearray(whole)
        if trial % 2:
            content = content[: draw.randrange(len(whole))]
        else:
            for _ in range(8):
                content[draw.randrange(6000)] = draw.randrange(256)
        path.write_bytes(content)
        with suppress(UserError):
            read_model(path)
