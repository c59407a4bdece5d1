"""Images of every mode become squares of red, green and blue; what cannot be read is told in one sentence."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.images import read_image, read_images, square
from regard.errors import UserError


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
