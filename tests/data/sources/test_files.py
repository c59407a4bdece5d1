"""Lines of a file: empty ones are counted, not kept, long ones are refused, and what is no regular file is not read at all."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources import files
from regard.data.sources.files import must_be_file, numbered_lines
from tests.command import refused, regard


def as_before(content: bytes) -> list[tuple[int, str]]:
    """What `numbered_lines` means, without a thought of memory."""
    lines = [line.decode().removesuffix("\r") for line in content.split(b"\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    return list(enumerate(lines, 1))


@given(st.lists(st.sampled_from([b"", b" ", b"\t", b"\r", b"a", b"b c\r", "é\u2028".encode()]), max_size=20), st.integers(1, 8))
@settings(max_examples=200, deadline=None)
def test_lines_are_what_they_were_however_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], block: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(b"\n".join(lines))
    with pytest.MonkeyPatch.context() as small:
        small.setattr(files, "BLOCK", block)
        if expected := as_before(b"\n".join(lines)):
            assert list(numbered_lines(path)) == expected
        else:
            with pytest.raises(UserError, match="is empty"):
                list(numbered_lines(path))


def peak(path: Path) -> int:
    """Bytes that reading the file took at most, beside what the reader holds always."""
    tracemalloc.start()
    try:
        for _ in numbered_lines(path):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_empty_lines_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 2**14)
    (tmp_path / "nothing.txt.gz").write_bytes(gzip.compress(b"first\n" + b"\n" * 200_000 + b"last\n"))
    assert peak(tmp_path / "nothing.txt.gz") < 1 << 20
    assert next(islice(numbered_lines(tmp_path / "nothing.txt.gz"), 200_001, None)) == (200_002, "last")


def test_lines_of_ever_other_white_space_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLANKS", 10)
    (tmp_path / "a.txt").write_text("a\n" + " \n\t\n" * 5 + "b\n")
    assert len(list(numbered_lines(tmp_path / "a.txt"))) == 12
    (tmp_path / "a.txt").write_text("a\n" + " \n\t\n" * 6 + "b\n")
    with pytest.raises(UserError, match=r"line 12: .* white space"):
        list(numbered_lines(tmp_path / "a.txt"))


def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST", 1 << 20)
    with (tmp_path / "long.txt").open("wb") as file:
        file.write(b"first\n")
        file.truncate(1 << 30)  # a gigabyte of nothing, which is not on the disk
    with pytest.raises(UserError, match="line 2: this line is longer than 1 MiB"):
        peak(tmp_path / "long.txt")
    (tmp_path / "good.txt").write_bytes(b"x" * (1 << 20) + b"\nlast\n")
    assert [len(line) for _, line in numbered_lines(tmp_path / "good.txt")] == [1 << 20, 4]


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "txt", "conllu", "json"])
def test_pipes_and_devices_are_no_data(kind: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"pipe.{kind}")
    (tmp_path / f"zero.{kind}").symlink_to("/dev/zero")
    for name, told in (("pipe", "is a pipe"), ("zero", "is a device")):
        with pytest.raises(UserError, match=told):
            must_be_file(tmp_path / f"{name}.{kind}")
        with pytest.raises(UserError, match=told):
            list(numbered_lines(tmp_path / f"{name}.{kind}"))


@pytest.mark.parametrize(
    ("recipe", "kind", "splits"),
    [
        ("translate", "tsv", "train valid"),
        ("bert-classify", "jsonl", "train"),
        ("gpt", "txt", "train"),
        ("bert-tag", "conll", "train"),
        ("bert-answer", "json", "train"),
        ("cbow", "txt", "train"),
    ],
)
def test_no_recipe_waits_for_a_pipe(recipe: str, kind: str, splits: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"pipe.{kind}")
    asked = [f"data.{split}={tmp_path / 'pipe'}.{kind}" for split in splits.split()]
    refused(regard("train", recipe, *asked, "--dry-run"), "is a pipe", "regular file")
