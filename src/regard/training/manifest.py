"""Verification of a folder: MANIFEST.json, written last, has the size and sha256 of every file, and its own.

Sizes catch truncation at once; hashes catch a flipped bit that safetensors would load silently. The manifest must be, byte for
byte, in canonical form, so damage to the manifest itself is noticed as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import read_bounded

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
