"""Labelled images from every kind of file: the same pixels and labels wherever they come from."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import UserError
from regard.data.sources.image_arrays import CIFAR10, grey, read_idx
from regard.data.sources.image_sets import Form, ImageSet, open_images, read_image_set

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
LABELS = [CIFAR10[n] for n in (3, 1, 3, 0, 9, 1, 3, 3, 2, 2, 5, 5)]
FORM = Form(32)


def by_class(path: Path) -> Path:
    for n, (image_YXC, label) in enumerate(zip(PIXELS, LABELS)):
        (path / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image_YXC).save(path / label / f"{n}.png")
    return path


def idx(path: Path, array: np.ndarray) -> Path:
    content = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def pairs(found: ImageSet) -> set[tuple[str, bytes]]:
    assert found.labels is not None
    return {(label, image_YXC.tobytes()) for label, image_YXC in zip(found.labels, found.pixels_NYXC)}


def test_the_same_images_from_everywhere(tmp_path: Path) -> None:
    photos = by_class(tmp_path / "photos")
    for name, mode in (("a.tar.gz", "w:gz"), ("b.tar", "w")):
        with tarfile.open(tmp_path / name, mode) as archive:  # type: ignore[call-overload]
            archive.add(photos, "photos")
    numbers = np.array([CIFAR10.index(label) for label in LABELS])
    np.savez(tmp_path / "set.npz", images=PIXELS, labels=np.array(LABELS))
    np.savez(tmp_path / "torch.npz", x=PIXELS.transpose(0, 3, 1, 2).astype(np.float32), y=np.array(LABELS)[:, None])
    np.savez(tmp_path / "keras.npz", x_train=PIXELS[:1], y_train=["cat"], x_test=PIXELS, y_test=np.array(LABELS))
    rows = [bytes([n]) + image_YXC.transpose(2, 0, 1).tobytes() for image_YXC, n in zip(PIXELS, numbers.tolist())]
    (tmp_path / "data_batch_1.bin").write_bytes(b"".join(rows))
    paths = [f"photos/{label}/{n}.png" for n, label in enumerate(LABELS)]
    (tmp_path / "t.csv").write_text("filename,breed,age\n" + "".join(f"{p},{label},3\n" for p, label in zip(paths, LABELS)))
    (tmp_path / "t.tsv").write_text("".join(f"{p}\t{label}\n" for p, label in zip(paths, LABELS)))
    lines = [json.dumps({"image": p, "label": label}) for p, label in zip(paths, LABELS)]
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    expected = set(zip(LABELS, (image_YXC.tobytes() for image_YXC in PIXELS)))
    names = ("photos", "a.tar.gz", "b.tar", "set.npz", "torch.npz", "keras.npz@split=test")
    for name in (*names, "data_batch_1.bin", "t.csv", "t.tsv", "t.jsonl.gz"):
        assert pairs(read_image_set([str(tmp_path / name)], FORM)) == expected, name
    one, other = (read_image_set([str(tmp_path / name)], FORM) for name in ("a.tar.gz", "b.tar"))
    assert one.digest() == other.digest()
    assert one.labels == read_image_set([str(photos)], FORM).labels


def test_idx_files_find_their_labels_or_are_given_them(tmp_path: Path) -> None:
    images = idx(tmp_path / "train-images-idx3-ubyte.gz", PIXELS[..., 0])
    beside = idx(tmp_path / "train-labels-idx1-ubyte.gz", np.arange(12, dtype=np.uint8))
    given = idx(tmp_path / "other-labels.idx", np.arange(12, dtype=np.uint8)[::-1])
    found, other = read_image_set([str(images)], Form(32, 1)), read_image_set([str(images), str(given)], Form(32, 1))
    both = read_image_set([str(images), str(beside), str(images), str(given)], Form(32, 1))
    assert (found.pixels_NYXC[..., 0] == PIXELS[..., 0]).all()
    assert found.labels == tuple(map(str, range(12))) == found.classes
    assert other.labels == tuple(map(str, reversed(range(12))))
    assert both.labels == found.labels + other.labels
    assert read_idx(beside).tolist() == list(range(12))


def test_images_take_the_form_that_is_asked_for() -> None:
    wide = np.zeros((20, 40, 3), np.uint8)
    wide[:, 10:30] = 255
    picture = Image.fromarray(wide)
    assert (Form(8).of(picture) == 255).all()  # its middle
    squashed = Form(8, resize="squash").of(picture)
    assert (squashed[:, 3:5] == 255).all()
    assert (squashed[:, [0, -1]] == 0).all()
    assert Form(8, 1).of(picture).shape == (8, 8, 1)
    high = picture.transpose(Image.Transpose.ROTATE_90)
    assert (Form(4).of(high) == 255).all()
    theirs = picture.crop((10, 0, 30, 20)).resize((7, 7), Image.Resampling.BILINEAR)
    assert np.abs(Form(7).of(picture).astype(int) - np.asarray(theirs)).max() <= 1


def test_grey_and_colours_become_each_other(tmp_path: Path) -> None:
    np.savez(tmp_path / "colours.npz", x=PIXELS, y=LABELS)
    np.savez(tmp_path / "greys.npz", x=PIXELS[..., 0], y=LABELS)
    np.savez(tmp_path / "one.npz", x=PIXELS[..., :1], y=LABELS)
    colours, greys, one = (str(tmp_path / f"{name}.npz") for name in ("colours", "greys", "one"))
    assert (read_image_set([colours], Form(32, 1)).pixels_NYXC[..., 0] == grey(PIXELS)).all()
    assert (read_image_set([greys], FORM).pixels_NYXC == PIXELS[..., :1]).all()
    assert read_image_set([one], FORM).digest() == read_image_set([greys], FORM).digest()


def test_a_limit_takes_some_of_each_class(tmp_path: Path) -> None:
    photos = str(by_class(tmp_path / "photos"))
    found = read_image_set([photos], FORM, limit=6)
    assert len(found) == 6
    assert len(set(found.labels or ())) > 2
    assert found.names == read_image_set([photos], FORM).names[:6]
    assert read_image_set([photos, photos], FORM, limit=15).names[12:] == found.names[:3]


def test_images_without_labels_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.png", "a.png", ".hidden.png"):
        Image.fromarray(PIXELS[0]).save(tmp_path / name)
    (tmp_path / "list.csv").write_text("b.png\na.png\nb.png\n")
    assert [Path(name).name for name in open_images([str(tmp_path)], FORM).names] == ["a.png", "b.png"]
    single = open_images([str(tmp_path / "b.png"), "builtin:shapes/test/3"], FORM)
    assert single.labels is None
    assert len(single) == 2
    assert open_images([str(tmp_path / "list.csv")], FORM).names == ("b.png", "a.png", "b.png")


def test_modes_turned_and_moving_images(tmp_path: Path) -> None:
    folder = tmp_path / "x" / "a"
    folder.mkdir(parents=True)
    first = Image.fromarray(PIXELS[0])
    first.convert("CMYK").save(folder / "cmyk.jpg")
    first.convert("P").save(folder / "palette.png")
    first.convert("LA").save(folder / "alpha.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    half = Image.new("RGB", (32, 32), "white")
    half.paste("black", (0, 0, 32, 16))
    half.save(folder / "turned.png", exif=exif)
    first.save(folder / "moving.gif", save_all=True, append_images=[Image.fromarray(PIXELS[1])])
    found = read_image_set([str(tmp_path / "x")], FORM)
    assert found.notes == ("1 of 5 images have several frames, and of each the first is taken",)
    by_name = {Path(name).name: image for name, image in zip(found.names, found.pixels_NYXC)}
    assert (by_name["turned.png"][:, 16:] == 0).all()  # the upper half is now the right one
    assert (by_name["turned.png"][:, :16] == 255).all()


def test_rows_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rows(list[dict[str, object]]):
        def __init__(self, rows: Iterable[dict[str, object]]) -> None:
            super().__init__(rows)
            self.features = {"img": None, "fine_label": SimpleNamespace(names=["cat", "dog"])}

    module = ModuleType("datasets")
    pictures = [Image.fromarray(PIXELS[0]), Image.fromarray(PIXELS[1]).convert("L")]
    module.load_dataset = lambda name, config, split: Rows(  # type: ignore[attr-defined]
        {"img": picture, "fine_label": n} for n, picture in enumerate(pictures)
    )
    monkeypatch.setitem(sys.modules, "datasets", module)
    found = read_image_set(["hf:somebody/animals"], FORM)
    assert found.labels == ("cat", "dog")
    assert (found.pixels_NYXC[0] == PIXELS[0]).all()
    assert (found.pixels_NYXC[1, ..., 0] == found.pixels_NYXC[1, ..., 2]).all()


def test_digest_tells_pixels_labels_and_shapes_apart() -> None:
    base = ImageSet(PIXELS[:2], ("a", "b"), ("1", "2"))
    others = [
        ImageSet(PIXELS[:2], ("b", "a"), ("1", "2")),
        ImageSet(PIXELS[1::-1], ("a", "b"), ("1", "2")),
        ImageSet(PIXELS[:2].reshape(2, 16, 64, 3), ("a", "b"), ("1", "2")),
    ]
    assert len({base.digest(), *(other.digest() for other in others)}) == 4
    assert base.take(np.array([1, 0, 1])).labels == ("b", "a", "b")
    with pytest.raises(ValueError, match="names"):
        ImageSet(PIXELS[:2], ("a",), ("1", "2"))


def test_a_broken_image_in_the_middle_is_named(tmp_path: Path) -> None:
    photos = by_class(tmp_path / "photos")
    whole = io.BytesIO()
    Image.fromarray(PIXELS[0]).save(whole, "PNG")
    (photos / "cat" / "cut.png").write_bytes(whole.getvalue()[:300])
    with pytest.raises(UserError, match=r"cat/cut\.png is not an image that can be read"):
        read_image_set([str(photos)], FORM)
