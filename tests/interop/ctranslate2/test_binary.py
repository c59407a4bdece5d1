"""`model.bin`, read back by hand and by the engine."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.interop.ctranslate2 import binary
from regard.interop.ctranslate2.binary import PRECISIONS, TYPES, write_model


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return variables and aliases, by the description at the top of binary.py."""
    content, place = path.read_bytes(), 0

    def take(form: str) -> tuple[int, ...]:
        nonlocal place
        found = struct.unpack_from("<" + form, content, place)
        place += struct.calcsize("<" + form)
        return found

    def string() -> str:
        (size,) = take("H")
        (found,) = take(f"{size}s")
        assert found[-1:] == b"\0"  # type: ignore[index]
        return found[:-1].decode()  # type: ignore[index, no-any-return]

    assert take("I") == (6,)
    assert string() == "TransformerSpec"
    revision, count = take("II")
    assert revision == 7
    types = {number: dtype for dtype, number in TYPES.items()}
    variables = {}
    for _ in range(count):
        name, (rank,) = string(), take("B")
        shape, (kind, size) = take(f"{rank}I"), take("BI")
        variables[name] = torch.frombuffer(bytearray(take(f"{size}s")[0]), dtype=types[kind]).reshape(shape)  # type: ignore[arg-type]
    aliases = {}
    for _ in range(take("I")[0]):
        alias = string()
        aliases[alias] = string()
    assert place == len(content)
    return variables, aliases


def write(path: Path, variables: dict[str, Tensor], kind: str = "float32") -> tuple[dict[str, Tensor], dict[str, str]]:
    write_model(path, "TransformerSpec", 7, variables, PRECISIONS[kind])
    return read(path)


def test_numbers_and_tensors_come_back(tmp_path: Path) -> None:
    given = {"b/weight": torch.randn(3, 4), "a/gamma": torch.randn(4), "c": torch.tensor(2, dtype=torch.int16)}
    found, aliases = write(tmp_path / "model.bin", given)
    assert aliases == {}
    assert list(found) == sorted(given)
    for name, tensor in given.items():
        assert torch.equal(found[name], tensor)
        assert found[name].dtype == tensor.dtype


def test_equal_tensors_are_stored_once(tmp_path: Path) -> None:
    weight = torch.randn(3, 4)
    given = {"z/weight": weight, "a/weight": weight.clone(), "m/gamma": weight, "n/gamma": torch.zeros(2)}
    found, aliases = write(tmp_path / "model.bin", given)
    assert aliases == {"z/weight": "a/weight"}  # a matrix is quantised, and what is none keeps its type
    assert set(found) == {"a/weight", "m/gamma", "n/gamma"}


def test_rows_in_8_bits_are_nearest_to_what_they_were(tmp_path: Path) -> None:
    weight = torch.randn(5, 16)
    weight[2] = 0
    found, _ = write(tmp_path / "model.bin", {"a/weight": weight, "a/bias": torch.randn(5)}, "int8")
    assert {name: str(tensor.dtype) for name, tensor in found.items()} == {
        "a/bias": "torch.float32",
        "a/weight": "torch.int8",
        "a/weight_scale": "torch.float32",
    }
    back = found["a/weight"].float() / found["a/weight_scale"][:, None]
    step = weight.abs().amax(1, keepdim=True) / 127
    assert ((back - weight).abs() <= step / 2 + 1e-6).all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8_float16", "int8_bfloat16"])
def test_other_numbers_are_half_as_large(kind: str, tmp_path: Path) -> None:
    found, _ = write(tmp_path / "model.bin", {"a/weight": torch.randn(5, 16), "a/bias": torch.randn(5)}, kind)
    assert found["a/bias"].dtype == PRECISIONS[kind].others
    assert found["a/weight"].dtype == PRECISIONS[kind].matrices


def test_a_matrix_beyond_the_file_s_sizes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "LARGEST", 100)
    with pytest.raises(UserError, match="a/weight has 240 bytes"):
        write(tmp_path / "model.bin", {"a/weight": torch.randn(5, 12)})
