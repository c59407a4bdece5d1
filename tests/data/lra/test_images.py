"""Pictures from folders, archives, CIFAR's batches and arrays: the same pixels, wherever they come from."""

from __future__ import annotations

import os
import pickle
import tarfile
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from regard.core import files
from regard.core.errors import UserError
from regard.data.lra.images import is_pictures, read_pictures
from regard.data.sources.image_arrays import CIFAR10, grey
from regard.data.sources.labelled import read_labelled

COLOURS = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
LABELS = (3, 1, 3, 0, 9, 1)


def folder(path: Path) -> Path:
    for n, (colours, label) in enumerate(zip(COLOURS, LABELS)):
        (path / CIFAR10[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(colours).save(path / CIFAR10[label] / f"{n}.png")
    return path


def batch(path: Path) -> Path:
    """As CIFAR-10's makers describe their binary version."""
    rows = [bytes([label]) + colours.transpose(2, 0, 1).tobytes() for colours, label in zip(COLOURS, LABELS)]
    path.write_bytes(b"".join(rows))
    return path


def pairs(entry: str) -> set[tuple[str, str]]:
    return {(example.label, example.text) for example in read_labelled((entry,))}


def test_the_same_pictures_from_everywhere(tmp_path: Path) -> None:
    photos = folder(tmp_path / "photos")
    with tarfile.open(tmp_path / "photos.tar.gz", "w:gz") as archive:
        archive.add(photos, "photos")
    np.savez(tmp_path / "set.npz", images=COLOURS, labels=np.array([CIFAR10[label] for label in LABELS]))
    first, *others = (
        pairs(str(path)) for path in (batch(tmp_path / "b.bin"), photos, tmp_path / "photos.tar.gz", tmp_path / "set.npz")
    )
    assert len(first) == 6
    assert all(other == first for other in others)


@settings(max_examples=20)
@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_grey_is_pillows(colour: tuple[int, int, int]) -> None:
    theirs = Image.new("RGB", (1, 1), colour).convert("L").getpixel((0, 0))
    assert abs(int(grey(np.array([[colour]], np.uint8))[0, 0]) - theirs) <= 1  # they work in sixteenths of bits


def test_pixels_are_read_row_by_row(tmp_path: Path) -> None:
    ramp = np.arange(12, dtype=np.uint8).reshape(1, 3, 4).repeat(2, 0)
    np.savez(tmp_path / "ramp.npz", images=ramp, labels=np.array([0, 1]))
    (one, two) = read_pictures(str(tmp_path / "ramp.npz"))
    assert one.text == " ".join(map(str, range(12)))
    assert (one.label, two.label) == ("0", "1")


def test_pictures_of_other_sizes_are_made_alike(tmp_path: Path) -> None:
    photos = folder(tmp_path / "photos")
    Image.new("RGB", (50, 40)).save(photos / "cat" / "large.png")
    with pytest.raises(UserError, match="50 x 40 pixels, the first 32 x 32; make them alike"):
        read_pictures(str(photos))
    found = read_pictures(f"{photos}@side=8")
    assert set(found.lengths.tolist()) == {64}
    assert len(found) == 7


def test_batches_follow_each_other_and_can_be_limited(tmp_path: Path) -> None:
    where = (str(batch(tmp_path / "data_batch_1.bin")), str(batch(tmp_path / "data_batch_2.bin")))
    both = read_labelled(where)
    assert len(both) == 12
    assert [e.label for e in both[:6]] == [e.label for e in both[6:]] == [CIFAR10[label] for label in LABELS]
    assert both[7].text == both[1].text
    assert len(read_labelled(where, (), 8)) == 8


def test_what_names_pictures(tmp_path: Path) -> None:
    for name in ("a.bin", "a.npz", "a.tar", "A.TAR.GZ", "a.tgz@side=16", str(tmp_path)):
        assert is_pictures(name), name
    for name in ("a.tsv", "a.jsonl.gz", "builtin:remarks/train", "hf:cifar10", "missing-folder"):
        assert not is_pictures(name), name


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """CIFAR-10's python version is a pickle without a suffix; an .npz may hide one."""
    ran: list[int] = []

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[int]]:
            return ran.append, (1,)

    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": [1]}))
    with pytest.raises(UserError, match="no table"):
        read_labelled((str(tmp_path / "data_batch_1"),))
    np.savez(tmp_path / "trap.npz", images=np.array([Trap()], object), labels=np.array([0]))
    with pytest.raises(UserError, match="cannot be read as pictures"):
        read_pictures(str(tmp_path / "trap.npz"))
    assert not ran


def test_pipes_links_out_and_bombs_are_no_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = folder(tmp_path / "photos")
    Image.new("L", (32, 32)).save(tmp_path / "out.png")
    (photos / "cat" / "link.png").symlink_to(tmp_path / "out.png")
    with pytest.raises(UserError, match="leads out of"):
        read_pictures(str(photos))
    (photos / "cat" / "link.png").unlink()
    os.mkfifo(photos / "cat" / "pipe.png")
    with pytest.raises(UserError, match=r"pipe\.png is a pipe"):
        read_pictures(str(photos))
    for name in ("pipe.bin", "pipe.npz", "pipe.tar"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(UserError, match="is a pipe"):
            read_pictures(str(tmp_path / name))
    monkeypatch.setattr(files, "BOMB_SIZE", 10_000)
    np.savez_compressed(tmp_path / "bomb.npz", images=np.zeros((500, 32, 32), np.uint8), labels=np.arange(500))
    with pytest.raises(UserError, match="times its size"):
        read_pictures(str(tmp_path / "bomb.npz"))


def test_an_array_that_says_it_is_larger_than_any_memory(tmp_path: Path) -> None:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 100), }"
    header += b" " * (117 - len(header)) + b"\n"
    with ZipFile(tmp_path / "a.npz", "w") as file:
        for name in ("images.npy", "labels.npy"):
            file.writestr(name, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UserError, match="cannot be read as pictures"):
        read_pictures(str(tmp_path / "a.npz"))


def test_an_archive_in_any_order_has_the_same_pictures(tmp_path: Path) -> None:
    photos = folder(tmp_path / "photos")
    files_of = sorted(path for path in photos.rglob("*.png"))
    for name, order in (("one.tar.gz", files_of), ("other.tar", files_of[::-1])):
        with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as archive:
            for path in order:
                archive.add(path, path.relative_to(tmp_path))
    one, other = (read_pictures(str(tmp_path / name)) for name in ("one.tar.gz", "other.tar"))
    assert [(e.text, e.label) for e in one] == [(e.text, e.label) for e in other]
