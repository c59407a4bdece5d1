"""A small file, whole or not at all: a kill in the middle must not leave half of it under its name."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)
