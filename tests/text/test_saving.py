"""Whoever reads a file finds the old one or the new one, whenever the writing stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.text.saving import write_whole


def test_it_is_all_there_and_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "labels.json", "äöü\n")
    write_whole(tmp_path / "labels.json", "new\n")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"labels.json": b"new\n"}


def test_half_a_file_never_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.json"
    write_whole(path, "old")
    whole = Path.write_text

    def killed(self: Path, text: str, *rest: str) -> int:
        whole(self, text[: len(text) // 2], *rest)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "something else")
    assert path.read_text("utf-8") == "old"
