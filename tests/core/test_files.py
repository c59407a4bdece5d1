"""The reader of untrusted files: what is no regular file, too large, a bomb, or a link out of its folder is refused."""

from __future__ import annotations

import gzip
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from regard.core import files
from regard.core.errors import UserError
from regard.core.files import (
    draft_folder,
    is_free,
    open_maybe_gzipped,
    open_regular,
    read_bounded,
    read_json,
    refuse_link_out,
    write_whole,
)


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bounded(tmp_path / "a", 5) == b"12345"
    with open_regular(tmp_path / "a") as file:
        assert file.read() == b"12345"


def test_one_byte_too_many(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(UserError, match="more than 4 bytes"):
        read_bounded(tmp_path / "a", 4)


def test_what_says_that_it_is_empty_and_is_not(tmp_path: Path) -> None:
    """Files of /proc have size 0 and content: the bound is held while reading, not by the size alone."""
    with pytest.raises(UserError, match="more than 2 bytes"):
        read_bounded(Path("/proc/self/status"), 2)


def test_pipes_sockets_devices_and_folders_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name, told in (("pipe", "a pipe"), ("link", "a pipe"), ("socket", "cannot be read"), (".", "a folder")):
            with pytest.raises(UserError, match=told):
                open_regular(tmp_path / name)
    for device in ("/dev/zero", "/dev/null"):
        with pytest.raises(UserError, match="a device"):
            open_regular(Path(device))


def test_names_that_are_none(tmp_path: Path) -> None:
    for name, told in (("a\0b", "no path"), ("a" * 300, "cannot be read"), ("nowhere/a", "neither does the folder")):
        with pytest.raises(UserError, match=told):
            open_regular(tmp_path / name)
    (tmp_path / "train.tsv").touch()
    with pytest.raises(UserError, match=r"did you mean 'train.tsv'"):
        open_regular(tmp_path / "tain.tsv")


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"9" * 10_000, b"\xff", b""])
def test_what_is_no_json_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.json") as caught:
        read_json(tmp_path / "a.json")
    assert len(str(caught.value)) < 500


def test_links_may_stay_inside_and_may_not_lead_out(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "secret").write_text("s")
    (folder / "real").write_text("r")
    (folder / "inside").symlink_to("real")
    (folder / "outside").symlink_to("../secret")
    (folder / "through").symlink_to(folder / ".." / "run" / "outside")
    assert read_bounded(folder / "inside", within=folder) == b"r"
    for name in ("outside", "through"):
        with pytest.raises(UserError, match="leads out of"):
            read_bounded(folder / name, within=folder)
    with pytest.raises(UserError, match="leads out of"):
        refuse_link_out(folder / ".." / "secret", folder)


def test_a_hub_cache_is_made_of_links_into_its_blobs(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--owner--name" / "snapshots" / "0123"
    blobs = tmp_path / "models--owner--name" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "beef").write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/beef")
    assert read_json(snapshot / "config.json", within=snapshot) == {}


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BOMB_SIZE", 10_000)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\n" * 1_000_000))
    (tmp_path / "text.gz").write_bytes(gzip.compress(bytes(range(256)) * 100))
    with open_maybe_gzipped(tmp_path / "text.gz") as file:
        assert len(file.read()) == 25_600
    (tmp_path / "line.gz").write_bytes(gzip.compress(b"a" * 1_000_000))
    for read in (
        lambda file: file.read(),
        lambda file: file.read(5000),
        lambda file: file.readline(),
        lambda file: file.readline(9),
    ):
        for name in ("bomb.gz", "line.gz"):
            with open_maybe_gzipped(tmp_path / name) as file, pytest.raises(UserError, match="times its size"):
                all(iter(lambda: read(file), b""))  # noqa: B023


def test_a_bomb_is_found_whatever_comes_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte that does not shrink would allow a hundred megabytes of lines before it."""
    monkeypatch.setattr(files, "BOMB_SIZE", 10_000)
    noise = random.Random(0).randbytes(1_000_000)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\n" * 5_000_000) + gzip.compress(noise, 1))
    (tmp_path / "text.gz").write_bytes(gzip.compress(noise, 1) + gzip.compress(b"\n" * 5_000_000))
    with open_maybe_gzipped(tmp_path / "bomb.gz") as file, pytest.raises(UserError, match="times its size"):
        file.read()
    with open_maybe_gzipped(tmp_path / "text.gz") as file:
        assert len(file.read()) == 6_000_000


def test_a_gzip_file_that_ends_too_soon(tmp_path: Path) -> None:
    whole = gzip.compress(bytes(range(256)) * 10)
    for content in (whole[:-9], b"no gzip at all", whole[:40] + b"\x00\x01" + whole[42:]):
        (tmp_path / "a.gz").write_bytes(content)
        with pytest.raises(UserError, match="not a whole gzip"), open_maybe_gzipped(tmp_path / "a.gz") as file:
            file.read()


def test_a_link_is_replaced_and_what_it_named_is_kept(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "recipe.toml").symlink_to("precious")
    write_whole(tmp_path / "recipe.toml", b"new")
    assert (tmp_path / "precious").read_text() == "kept"
    assert (tmp_path / "recipe.toml").read_bytes() == b"new"
    assert not (tmp_path / "recipe.toml").is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def _fill(folder: Path, then: Callable[[], object]) -> None:
    with draft_folder(folder, last="x") as draft:
        (draft / "x").write_text("x")
        (draft / "inner").mkdir()
        then()


def test_a_folder_is_filled_at_once_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "full"
    with pytest.raises(KeyboardInterrupt):
        _fill(folder, Mock(side_effect=KeyboardInterrupt))
    assert not (tmp_path / "a").exists()
    _fill(folder, lambda: None)
    assert sorted(path.name for path in folder.iterdir()) == ["inner", "x"]
    assert not is_free(folder)
    assert not is_free(folder / "x")
    (folder / "x").write_text("mine")
    with pytest.raises(OSError, match="Directory not empty"):  # what stands there stays
        _fill(folder, (folder / "inner" / "kept").touch)
    assert (folder / "x").read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir()) == ["inner", "x"]
