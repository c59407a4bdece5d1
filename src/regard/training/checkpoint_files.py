"""The files of a checkpoint: tensors, shards of tensors, and the manifest that verifies them.

Tensors are in safetensors files: no pickle, and restored bit for bit. Tied weights are written once and keep both names; any
memory layout may be given.

Sharded, every process writes its shard of each tensor, and reading joins the shards. PyTorch's distributed checkpoint (DCP) plans
what each process writes and reads. Its usual format keeps that plan as a pickle, so this is its other one:
`shard-R-*.safetensors` for each process, with the offset of every tensor. Any number of processes can read what any other number
wrote. Names are `part.name`; tied weights are written once, and `shards.json` has their other names.

MANIFEST.json, written last, has the size and sha256 of every file, and its own. Sizes catch truncation at once; hashes catch a
flipped bit that safetensors would load silently. The manifest must be, byte for byte, in canonical form, so damage to the
manifest itself is noticed as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import open_regular, read_bounded

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


TIED = "tied"  # further name -> name, as JSON


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, not yet flushed, readable by the owner only: safetensors makes every file 0600, whatever the umask."""
    unique, aliases = _untie(tensors)
    try:
        # One metadata key, since safetensors writes several in no fixed order and equal weights must be equal bytes; and none
        # rather than {}, which with no tensors 0.8.0 writes as what it cannot read.
        save_file(unique, path, metadata={TIED: json.dumps(aliases)} if aliases else None)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))  # safetensors has the error of the operating system only as text
        if not code:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return tensors on the CPU in memory of their own; names that shared a tensor share it again."""
    open_regular(path).close()  # raises for a pipe, on which safetensors would block
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            # A clone, because safetensors may return a memory map of a file that is deleted later.
            loaded = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            aliases: dict[str, str] = json.loads((file.metadata() or {}).get(TIED, "{}"))
        return loaded | {alias: loaded[original] for alias, original in aliases.items()}
    except (SafetensorError, OSError, RuntimeError, KeyError, json.JSONDecodeError) as error:  # torch maps the file: RuntimeError
        raise UserError(f"{path} cannot be read ({error}); delete its folder to use an older one.") from error


def _untie(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return each tensor once, contiguous and on the CPU, and its further names."""
    unique: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        view = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and view in first:
            aliases[name] = first[view]
            continue
        first[view] = name
        dense = tensor.detach().cpu().contiguous()
        storage = dense.untyped_storage()
        if storage.data_ptr() in storages or storage.nbytes() != dense.nbytes:
            dense = dense.clone()  # a part of a larger storage, or another view of one already taken
        storages.add(dense.untyped_storage().data_ptr())
        unique[name] = dense
    return unique, aliases


INDEX = "shards.json"


def write_shards(folder: Path, parts: Mapping[str, Mapping[str, Tensor]], leads: bool) -> None:
    """Write the shard of this process to disk; all processes must call it."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
    tied = _tied(tensors)
    unique = {name: tensor.detach() for name, tensor in tensors.items() if name not in tied}
    try:
        dcp.save(unique, storage_writer=dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except CheckpointException as error:
        raise _cause(error) from error
    if leads:
        write_text(folder / INDEX, canonical({"tied": tied}))


def is_sharded(folder: Path) -> bool:
    return (folder / INDEX).is_file()


def parts_of(folder: Path) -> list[str]:
    return sorted({name.partition(".")[0] for name in _sizes(folder)})


def read_shards(folder: Path, part: str, mesh: DeviceMesh | None = None) -> dict[str, Tensor]:
    """Return the tensors of a part: unsharded on the CPU or, with a mesh, the shard of each process; all must call it."""
    import torch.distributed.checkpoint as dcp

    sizes = {name: size for name, size in _sizes(folder).items() if name.startswith(f"{part}.")}
    tensors = {name: _empty(*size, mesh) for name, size in sizes.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # as intended
        dcp.load(tensors, storage_reader=dcp.HuggingFaceStorageReader(str(folder)), no_dist=mesh is None)
    tied = {alias: name for alias, name in read_json(folder / INDEX)["tied"].items() if name in tensors}
    tensors |= {alias: tensors[name] for alias, name in tied.items()}
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items()}


def _sizes(folder: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    import torch.distributed.checkpoint as dcp

    found = dcp.HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    return {name: (meta.size, meta.properties.dtype) for name, meta in found.items()}  # type: ignore[union-attr]


def _empty(size: torch.Size, dtype: torch.dtype, mesh: DeviceMesh | None) -> Tensor:
    """Return an empty tensor, sharded along the first dimension as FSDP does; a scalar is not sharded."""
    if mesh is None or not size:
        return torch.empty(size, dtype=dtype)
    from torch.distributed.tensor import Shard, empty

    return empty(size, dtype=dtype, device_mesh=mesh, placements=[Shard(0)])


def cut(tensors: Mapping[str, Tensor], mesh: DeviceMesh) -> dict[str, Tensor]:
    """Return the shard of this process of tensors that every process has unsharded."""
    from torch.distributed.tensor import Shard, distribute_tensor

    return {
        name: distribute_tensor(tensor, mesh, [Shard(0)], src_data_rank=None) if tensor.dim() else tensor
        for name, tensor in tensors.items()
    }


def _tied(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Map further names of tied parameters to the first. By identity: a shard may be empty and have no memory to compare."""
    first: dict[int, str] = {}
    return {name: kept for name, tensor in tensors.items() if (kept := first.setdefault(id(tensor), name)) != name}


def _cause(error: BaseException) -> BaseException:
    """Return the cause inside the exception of DCP, so that a full disk is reported as such."""
    failures: Iterable[tuple[BaseException, object]] = getattr(error, "failures", {}).values()
    return next((cause for cause, _ in failures if isinstance(cause, OSError)), error)


FORMAT = 1
MANIFEST = "MANIFEST.json"


class Damaged(Exception):
    """A folder is not what was saved; the message is the reason, short enough for brackets."""


def seal(folder: Path, about: Mapping[str, Any]) -> None:
    """Write the manifest of the files in a folder, with further entries `about` them."""
    files = {path.name: fingerprint(path) for path in folder.iterdir()}
    body = {**about, "format": FORMAT, "files": files}
    write_text(folder / MANIFEST, canonical({**body, "seal": _seal(body)}))


def verify(folder: Path) -> dict[str, Any]:
    """Return the manifest after comparing every file with it."""
    try:
        return _verify(folder)
    except OSError as error:  # no permission, or another process has just deleted it
        raise Damaged(f"{error.strerror}") from error


def _verify(folder: Path) -> dict[str, Any]:
    if folder.is_symlink() or not folder.is_dir():
        raise Damaged("not a folder")
    manifest = _read_manifest(folder / MANIFEST)
    for name, expected in sorted(manifest["files"].items()):
        try:
            problem = _difference(folder, name, expected)
        except OSError as error:
            problem = error.strerror
        if problem:
            raise Damaged(f"{_shown(name)}: {problem}")
    for path in sorted(folder.iterdir()):
        if path.name not in {MANIFEST, *manifest["files"]}:
            raise Damaged(f"{_shown(path.name)}: not in the manifest")
    return manifest


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise Damaged(f"{path.name}: not a manifest")
    if manifest.get("format") != FORMAT:
        raise Damaged(f"{path.name}: format {manifest.get('format')!a}, this version reads {FORMAT}")
    body = {key: value for key, value in manifest.items() if key != "seal"}
    if manifest.get("seal") != _seal(body) or _content(path) != canonical(manifest).encode():
        raise Damaged(f"{path.name}: sha256 differs")
    return manifest


def _difference(folder: Path, name: str, expected: Any) -> str | None:
    """Return what is wrong with one file, or None; cheap checks first."""
    if Path(name).name != name or "\0" in name:
        return "a path, not a file name"
    path = folder / name
    if not os.path.lexists(path):
        return "missing"
    if not stat.S_ISREG(path.lstat().st_mode):  # a link may lead out of the folder, a pipe may block
        return "not a plain file"
    if not isinstance(expected, dict) or expected.keys() != {"bytes", "sha256"}:
        return "no size and sha256 in the manifest"
    if path.stat().st_size != expected["bytes"]:
        return f"{path.stat().st_size} bytes, {expected['bytes']} expected"
    return None if fingerprint(path) == expected else "sha256 differs"


def fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}


def canonical(value: Any) -> str:
    """Return the canonical JSON of a value: sorted keys, and floats in the shortest form that reads back exactly."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"


def write_text(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path) -> Any:
    try:
        if not os.path.lexists(path):
            raise Damaged(f"{path.name}: missing")
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Damaged(f"{path.name}: not a plain file")
        return json.loads(_content(path).decode(), parse_constant=_refuse)
    except OSError as error:
        raise Damaged(f"{path.name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path.name}: not JSON") from error


def _content(path: Path) -> bytes:
    try:
        return read_bounded(path)
    except UserError as error:
        raise Damaged(f"{path.name}: cannot be read, or is too large") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _seal(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(body).encode()).hexdigest()


def _shown(name: str) -> str:
    """Return a file name in ASCII, safe to print on any terminal."""
    return ascii(name)[1:-1]
