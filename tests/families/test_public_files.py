"""Weights and settings of a stranger: what is no number, no file of the folder or too much is refused."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import UserError
from regard.interop.huggingface import read_public
from regard.interop.huggingface.load import LARGEST_HEADER, LONGEST_NAME, MOST_TENSORS, opened_by
from regard.interop.huggingface.sentence_transformers import read_sentences
from tests.families.public_folder import VOCABULARY, change_tensors, export, small_gpt

WORDS = "transformer.wte.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return export(tmp_path / "gpt", small_gpt())


def write_header(folder: Path, header: Any, data: bytes = b"", size: int | None = None) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text) if size is None else size) + text + data)


def entry(begin: int = 0, end: int = 4) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [(end - begin) // 4], "data_offsets": [begin, end]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers(value: float, folder: Path) -> None:
    change_tensors(folder, lambda found: found[WORDS].view(-1)[7:8].fill_(value))
    with pytest.raises(UserError, match=rf"the tensor {WORDS} has values that are NaN or infinite"):
        read_public(folder)


def test_weights_that_are_too_large_for_float32(folder: Path) -> None:
    change_tensors(folder, lambda found: found.update({WORDS: found[WORDS].double() * 1e300}))
    with pytest.raises(UserError, match="too large for float32"):
        read_public(folder)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda folder: write_header(folder, {str(n): {} for n in range(MOST_TENSORS + 5)}), "more than 20,000 tensors"),
        (lambda folder: write_header(folder, {"a" * (LONGEST_NAME + 1): entry()}, bytes(4)), "a name of 201 characters"),
        (lambda folder: write_header(folder, b" " * (LARGEST_HEADER + 1)), "a header of 16 MiB"),
        (lambda folder: write_header(folder, {}, size=2**63), "its header should have"),
        (lambda folder: write_header(folder, b"{"), "Expecting property name"),
        (lambda folder: write_header(folder, b"[" * 100_000), "cannot be read"),
        (lambda folder: write_header(folder, b"\xff\xff"), "cannot be read"),
        (lambda folder: write_header(folder, {"a": entry(), "b": entry()}, bytes(4)), "damaged or cut short"),
        (lambda folder: write_header(folder, {"a": entry(0, 4), "b": entry(8, 12)}, bytes(12)), "damaged or cut short"),
        (lambda folder: write_header(folder, {"a": entry(0, 400)}, bytes(4)), "damaged or cut short"),
        (lambda folder: write_header(folder, {"a": {**entry(), "shape": [2**62, 4]}}, bytes(4)), "damaged or cut short"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "damaged or cut short"),
    ],
    ids=range(12),
)
def test_headers(write: Callable[[Path], object], told: str, folder: Path) -> None:
    write(folder)
    with pytest.raises(UserError, match=told) as caught:
        read_public(folder)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "model.safetensors.index.json", "modules.json"])
@pytest.mark.parametrize("what", ["pipe", "link"])
def test_what_is_no_file_of_the_folder_is_not_read(name: str, what: str, folder: Path, tmp_path: Path) -> None:
    if name.endswith("index.json"):
        (folder / "model.safetensors").unlink()
    (folder / name).unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(folder / name)
    else:
        (tmp_path / "secret.json").write_text("{}")
        (folder / name).symlink_to(tmp_path / "secret.json")
    with pytest.raises(UserError, match=r"is a pipe|leads out of"):
        (read_sentences if name == "modules.json" else read_public)(folder)


def test_a_hub_cache_is_opened(folder: Path, tmp_path: Path) -> None:
    """Whose snapshots are made of links into its blobs."""
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "0123", tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
    assert read_public(snapshot).vocabulary == VOCABULARY


@pytest.mark.parametrize("given", [[["BertModel"]], [{}], {"a": 1}, 5])
def test_an_architecture_that_is_no_name(given: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": given}))
    assert opened_by(tmp_path) == "AutoModel"


def test_an_index_of_very_many_tensors(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    names = {str(n): "part.safetensors" for n in range(MOST_TENSORS + 1)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    with pytest.raises(UserError, match="more than 20,000 tensors"):
        read_public(folder)
