"""Images of every mode become squares of red, green and blue; what cannot be read is told in one sentence."""

from __future__ import annotations

import io
import os
import random
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.core import files as untrusted
from regard.core.errors import UserError
from regard.data.sources import files, images
from regard.data.sources.captions import read_captions
from regard.data.sources.files import archive_members
from regard.data.sources.images import KINDS, decode_image, identify_image, read_image, read_images, read_named, square


def saved(path: Path, picture: Image.Image) -> Path:
    picture.save(path)
    return path


def test_grey_palette_and_transparent_images_become_colours(tmp_path: Path) -> None:
    grey = saved(tmp_path / "grey.png", Image.new("L", (4, 4), 77))
    assert (np.asarray(read_image(grey)) == 77).all()
    clear = saved(tmp_path / "clear.png", Image.new("RGBA", (4, 4), (200, 0, 0, 0)))
    assert (np.asarray(read_image(clear)) == 255).all()
    half = saved(tmp_path / "half.png", Image.new("RGBA", (4, 4), (200, 0, 0, 128)))
    assert np.abs(np.asarray(read_image(half))[0, 0].astype(int) - [227, 127, 127]).max() <= 1
    palette = saved(tmp_path / "palette.gif", Image.new("RGB", (4, 4), (10, 200, 30)).convert("P"))
    assert read_image(palette).mode == "RGB"


def test_a_photograph_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    picture = Image.new("RGB", (8, 4), "black")
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    picture.save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path / "turned.jpg").size == (4, 8)


def test_the_whole_image_is_made_square() -> None:
    wide = Image.new("RGB", (40, 10), "white")
    wide.paste((0, 0, 0), (0, 0, 20, 10))
    pixels = square(wide, 8)
    assert pixels.shape == (8, 8, 3)
    assert (pixels[:, 0] == 0).all()
    assert (pixels[:, -1] == 255).all()
    pixels[:] = 1  # one's own


@pytest.mark.parametrize("kind", ["text", "cut", "deep"])
def test_what_is_no_image_is_named(tmp_path: Path, kind: str) -> None:
    path = saved(tmp_path / "x.png", Image.fromarray(np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)))
    if kind == "text":
        path.write_text("not a picture")
    elif kind == "cut":
        saved(path, Image.effect_noise((64, 64), 50))
        path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(UserError, match=r"x\.png is not an image that can be read \([^<]*\)\. Save it again"):
        read_image(path)


def test_missing_and_misplaced_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_image(tmp_path / "none.png")
    with pytest.raises(UserError, match="is a folder"):
        read_image(tmp_path)
    saved(tmp_path / "dog.png", Image.new("L", (2, 2)))
    with pytest.raises(UserError, match=r"line 3: there is no image .*dogs\.png.*did you mean 'dog\.png'"):
        read_images(tmp_path, {"dogs.png": "c.tsv, line 3"}, 4)
    with pytest.raises(UserError, match="neither a folder nor an archive"):
        read_images(tmp_path / "dog.png", {"dog.png": ""}, 4)


@pytest.mark.parametrize("prefix", ["", "images/"])
def test_archives_are_read_like_folders(tmp_path: Path, prefix: str) -> None:
    names, folder, archive = ["b.png", "a.png"], tmp_path / "folder", tmp_path / "images.tar.gz"
    folder.mkdir()
    with tarfile.open(archive, "w:gz") as file:
        for n, name in enumerate(["a.png", "b.png", "unused.png"]):
            content = io.BytesIO()
            Image.new("RGB", (6, 3), (n, 2 * n, 100)).save(content, "png")
            (folder / name).write_bytes(content.getvalue())
            about = tarfile.TarInfo(prefix + name)
            about.size = len(content.getvalue())
            content.seek(0)
            file.addfile(about, content)
    needed = dict.fromkeys(names, "here")
    one, other = read_images(folder, needed, 5), read_images(archive, needed, 5)
    assert (one == other).all()
    assert one[:, 0, 0].tolist() == [[1, 2, 100], [0, 0, 100]]
    with pytest.raises(UserError, match=r"here: there is no image 'c\.png' in .*and 1 more"):
        read_images(archive, dict.fromkeys(["c.png", "d.png"], "here"), 5)
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(UserError, match="not a whole archive"):
        read_images(archive, needed, 5)


# ------------------------------------------------------------------------------------------------------------ files of strangers


def as_bytes(kind: str, picture: Image.Image | None = None) -> bytes:
    content = io.BytesIO()
    (picture or Image.effect_noise((16, 16), 90)).convert("RGB").save(content, kind)
    return content.getvalue()


def archive(path: Path, *members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as file:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size, about.type = len(content), kind
            file.addfile(about, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", ["EPS", "TIFF", "PCX", "SPIDER", "ICNS", "IM", "TGA", "PDF"])
def test_kinds_that_nobody_uses_are_not_even_tried(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(as_bytes(kind, Image.new("L", (32, 32))))
    with pytest.raises(UserError, match=r"not an image that can be read \(it is none of PNG, JPEG"):
        read_image(tmp_path / "a.png")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # pytest has filters of its own
def test_all_that_pillow_says_of_changed_bytes_is_one_sentence() -> None:
    chance, told = random.Random(0), 0
    for number in range(600):
        content = bytearray(as_bytes(KINDS[number % len(KINDS)], Image.new("RGB", (9, 7), (200, 30, 60))))
        for _ in range(chance.randint(1, 6)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            assert decode_image(bytes(content[: chance.randint(1, len(content))]), "a.png").mode == "RGB"
        except UserError as error:
            told += str(error).startswith("a.png ")
    assert told > 300


@pytest.mark.parametrize(
    "error", [AttributeError("x"), IndexError("x"), MemoryError(), zlib.error("x"), KeyError("x"), RecursionError()]
)
def test_whatever_a_decoder_raises(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise error

    monkeypatch.setattr("PIL.ImageOps.exif_transpose", breaks)
    with pytest.raises(UserError, match=r"a\.png is not an image that can be read \(\S+\)"):
        decode_image(as_bytes("PNG"), "a.png")


def test_size_and_pixels_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = bytearray(as_bytes("PNG", Image.new("L", (1, 1))))
    bomb[16:24] = (9000).to_bytes(4, "big") * 2
    bomb[29:33] = zlib.crc32(bomb[12:29]).to_bytes(4, "big")
    with pytest.raises(UserError, match="9,000 × 9,000 pixels, and 64,000,000 are taken at most"):
        decode_image(bytes(bomb), "a.png")
    with pytest.raises(UserError, match="16 × 16 pixels"):
        identify_image(as_bytes("PNG"), "a.png", 255)
    monkeypatch.setattr(images, "LARGEST", 100)
    with pytest.raises(UserError, match="more than 100 bytes"):
        read_image(saved(tmp_path / "a.png", Image.effect_noise((64, 64), 50)))


def test_pipes_and_devices_are_no_images(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    for name, told in (("pipe.png", "a pipe"), ("zero.png", "a device")):
        with pytest.raises(UserError, match=told):
            read_image(tmp_path / name)
        with pytest.raises(UserError, match=rf"c\.tsv, line 3: .*{name}"):
            read_images(tmp_path, {name: "c.tsv, line 3"}, 4)


@pytest.mark.parametrize("name", ["../out.png", "a/../../out.png", "/etc/passwd", "link.png", "folder/out.png"])
def test_captions_name_images_of_their_folder_only(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    saved(tmp_path / "out.png", Image.new("L", (2, 2)))
    (inside / "link.png").symlink_to(tmp_path / "out.png")
    (inside / "folder").symlink_to(tmp_path)
    (inside / "c.tsv").write_text(f"{name}\ta dog runs\n")
    with pytest.raises(UserError, match=r"c\.tsv, line 1: .*(outside of|leads out of)"):
        read_captions((str(inside / "c.tsv"),), "", 4)
    with pytest.raises(UserError, match=r"line 1: .*(outside of|leads out of)"):
        read_named(inside, name, "line 1")


def test_links_that_stay_in_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    saved(tmp_path / "images" / "a.png", Image.new("L", (2, 2), 9))
    (tmp_path / "images" / "b.png").symlink_to("a.png")
    (tmp_path / "link").symlink_to("images")
    assert (read_images(tmp_path / "link", {"b.png": "here"}, 2) == 9).all()


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_what_an_archive_may_not_hold(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / name, ("a.png", as_bytes("PNG")))
    assert [found for found, _ in archive_members(path, lambda _: True, 10_000)] == ["a.png"]
    with pytest.raises(UserError, match=rf"{name}: a\.png has more than 10 bytes"):
        list(archive_members(path, lambda _: True, 10))
    path = archive(tmp_path / name, ("a.png", b""), kind=tarfile.GNUTYPE_SPARSE)
    with pytest.raises(UserError, match=rf"{name}"):
        list(archive_members(path, lambda _: True, 10_000))
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        path = archive(tmp_path / name, ("a.png", b""), kind=kind)
        assert list(archive_members(path, lambda _: True, 10_000)) == []


def test_an_archive_that_is_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "BOMB_SIZE", 1 << 20)
    path = archive(tmp_path / "a.tar.gz", ("unwanted.png", bytes(20 << 20)), ("a.png", as_bytes("PNG")))
    with pytest.raises(UserError, match="times its size"):
        list(archive_members(path, lambda name: name == "a.png", 10_000))


def test_a_million_members_are_not_kept(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", *((f"{n}.png", b"") for n in range(50)))
    with files._opened(path) as file:
        counts = [len(file.members) for _ in files._members(path, file)]  # type: ignore[attr-defined]
    assert counts == [0] * 50


def test_headers_that_lead_to_headers_without_end(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", *(("x", b"name\0") for _ in range(5000)), kind=tarfile.GNUTYPE_LONGNAME)
    with pytest.raises(UserError, match="not a whole archive"):
        list(archive_members(path, lambda _: True, 10_000))
