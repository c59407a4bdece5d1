"""What people may get wrong about labelled images and their models: one sentence each, exit code 2, nothing written."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.command import contents, refused, regard
from tests.tasks.image_classification.tiny_images import DATA, MODELS, SMALL, train, trained

Make = Callable[[Path], None]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@cache
def png(side: int = 8, kind: str = "PNG", mode: str = "RGB") -> bytes:
    made = io.BytesIO()
    random = np.random.default_rng(side)
    Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8)).convert(mode).save(made, kind)
    return made.getvalue()


def deep() -> bytes:
    made = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(made, "PNG")
    return made.getvalue()


def bomb() -> bytes:
    """A PNG of a few bytes that says it has 10,000 x 10,000 pixels."""
    content = bytearray(png())
    content[16:24] = (10_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


def photos(files: dict[str, bytes]) -> Make:
    """Two classes with three images each, and these files."""

    def make(folder: Path) -> None:
        for name, content in ({f"photos/{label}/{n}.png": png(8 + n) for label in "ab" for n in range(3)} | files).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    return make


def only(files: dict[str, bytes], folders: tuple[str, ...] = ()) -> Make:
    def make(folder: Path) -> None:
        for name in folders:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    return make


def archive(names: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def npz(**given: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.savez(made, **given)  # type: ignore[arg-type]
    return made.getvalue()


def idx(*shape: int, content: bytes | None = None) -> bytes:
    count = int(np.prod(shape))
    head = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    return head + (bytes(n % 7 for n in range(count)) if content is None else content)


SIX = np.zeros((6, 4, 4, 3), np.uint8)
TWO = np.array([0, 1] * 3)
PAIR = {"1.png": png(8), "2.png": png(9)}

DATA_MISTAKES: list[tuple[str, Make, tuple[str, ...]]] = [
    # Images.
    ("photos", photos({"photos/a/9.png": b"no picture"}), ("a/9.png is not an image", "it is none of PNG")),
    ("photos", photos({"photos/b/9.png": png()[:60]}), ("b/9.png is not an image that can be read",)),
    ("photos", photos({"photos/b/9.jpg": png(32, "JPEG")[:400]}), ("b/9.jpg is not an image that can be read",)),
    ("photos", photos({"photos/b/9.png": b""}), ("b/9.png is not an image",)),
    ("photos", photos({"photos/a/9.png": deep()}), ("a/9.png", "8 bits a colour")),
    ("photos", photos({"photos/a/9.png": bomb()}), ("10,000 × 10,000 pixels", "give it smaller")),
    ("photos", photos({"photos/a/9.png": png(8, "TIFF")}), ("a/9.png is not an image",)),
    ("photos", photos({"photos/a/9.png": b"<svg xmlns='http://www.w3.org/2000/svg'/>"}), ("a/9.png is not an image",)),
    ("photos", photos({"photos/a/9.gif": png(8, "GIF")[:25]}), ("a/9.gif is not an image",)),
    # Folders and archives.
    ("photos", only({}, ("photos",)), ("photos holds no pictures", "a folder for each label")),
    (
        "photos",
        only({"photos/1.png": png(), "photos/2.png": png()}),
        ("1.png is in no folder of a class", "called like its label"),
    ),
    ("photos", photos({"photos/lost.png": png()}), ("lost.png is in no folder of a class",)),
    ("photos", only({"photos/a/1.tiff": b"x", "photos/b/1.heic": b"x"}), ("holds no pictures", "end in .heic, .tiff")),
    ("photos", only({"photos/a/1.png": png(), "photos/a/2.png": png(9)}), ("one label only, 'a'", "data.columns (image,label)")),
    ("photos", only({"photos/a/1.png": png()}, ("photos/b",)), ("the class 'b' has no image", "take it out")),
    (
        "all",
        only({f"all/{s}/{c}/1.png": png() for s in ("train", "test") for c in "ab"}),
        ("class 'a' twice", "in test/a and in train/a"),
    ),
    ("photos", only({f"photos/{n}/1.png": png() for n in range(12)}), ("12 labels for 12 images", "columns swapped")),
    ("missing", only({}), ("missing does not exist",)),
    ("1.png", only({"1.png": png()}), ("1.png is no set of images", "One image has no label")),
    ("notes.txt", only({"notes.txt": b"hello"}), ("notes.txt is no set of images", "a folder of images by class")),
    ("a.tar.gz", only({"a.tar.gz": b"no archive"}), ("a.tar.gz is not a whole archive",)),
    ("a.tar.gz", only({"a.tar.gz": archive({"a/1.png": png(), "b/1.png": png()})[:-40]}), ("a.tar.gz is not a whole archive",)),
    ("a.tar.gz", only({"a.tar.gz": archive({"1.png": png()})}), ("is in no folder of a class",)),
    ("a.tar.gz", only({"a.tar.gz": archive({"a/1.txt": b"x"})}), ("holds no pictures", "end in .txt")),
    ("a.tar.gz", only({"a.tar.gz": archive({"a/1.png": png(), "b/2.png": b"x"})}), ("b/2.png is not an image",)),
    # Arrays.
    ("a.npz", only({"a.npz": b"nothing"}), ("a.npz cannot be read as pictures",)),
    ("a.npz", only({"a.npz": npz(images=SIX)}), ("a.npz cannot be read as pictures", "it has 'images'")),
    ("a.npz", only({"a.npz": npz(x_train=SIX, y_train=TWO)}), ("choose one, such as @split=train",)),
    ("a.npz@split=valid", only({"a.npz": npz(x_train=SIX, y_train=TWO)}), ("it has 'x_train', 'y_train'",)),
    ("a.npz", only({"a.npz": npz(x=SIX, y=TWO[:5])}), ("images are 6x4x4x3, labels 5",)),
    ("a.npz", only({"a.npz": npz(x=SIX[:0], y=TWO[:0])}), ("images are 0x4x4x3",)),
    ("a.npz", only({"a.npz": npz(x=SIX[0], y=TWO)}), ("images are 4x4x3", "labels 6")),
    ("a.npz", only({"a.npz": npz(x=SIX / 255 + 0.5, y=TWO)}), ("images have fractions", "whole numbers from 0 to 255")),
    ("a.npz", only({"a.npz": npz(x=SIX.astype(int) - 1, y=TWO)}), ("images go from -1 to -1",)),
    ("a.npz", only({"a.npz": npz(x=np.full((6, 4, 4), np.nan), y=TWO)}), ("images go from nan",)),
    ("a.npz", only({"a.npz": npz(x=np.array([{}] * 6), y=TWO)}), ("a.npz cannot be read as pictures",)),
    ("a.npz", only({"a.npz": npz(x=SIX, y=TWO + 0.5)}), ("labels are numbers such as 0.5",)),
    ("a.npz", only({"a.npz": npz(x=SIX, y=TWO * 0)}), ("one label only, '0'",)),
    ("a.bin", only({"a.bin": b"\0" * 3000}), ("a.bin is not a batch of CIFAR-10",)),
    ("a.bin", only({"a.bin": b"\x63" * 3073}), ("a.bin is not a batch of CIFAR-10", "a label from 0 to 9")),
    # MNIST's format.
    ("t-images-idx3-ubyte", only({"t-images-idx3-ubyte": idx(6, 4, 4)}), ("its labels were looked for at t-labels-idx1-ubyte",)),
    ("t-images-idx3-ubyte", only({"t-images-idx3-ubyte": idx(6, 4, 4), "t-labels-idx1-ubyte": idx(5)}), ("6 images", "5 labels")),
    ("t-images-idx3-ubyte", only({"t-images-idx3-ubyte": b"PK\3\4nothing"}), ("is not an idx file of bytes", "504b0304")),
    ("t-images-idx3-ubyte", only({"t-images-idx3-ubyte": idx(6, 4, 4)[:50]}), ("says that it holds 96 bytes, and has 34",)),
    ("t-images-idx3-ubyte", only({"t-images-idx3-ubyte": idx(6, 4, 4) + b"x"}), ("says that it holds 96 bytes, and has more",)),
    ("t-images-idx3-ubyte", only({"t-images-idx3-ubyte": idx(2**31, 2**31, 4, content=b"x")}), ("it is damaged",)),
    ("t-labels-idx1-ubyte", only({"t-labels-idx1-ubyte": idx(6)}), ("an array of 1 dimensions", "Labels come second")),
    (
        "t-images.idx,t-labels.idx",
        only({"t-images.idx": idx(6, 4, 4), "t-labels.idx": idx(6, 4, 4)}),
        ("give those that belong",),
    ),
    ("t-images-idx3-ubyte.gz", only({"t-images-idx3-ubyte.gz": gzip.compress(idx(6, 4, 4))[:-9]}), ("not a whole gzip file",)),
    # Tables.
    (
        "t.csv",
        only({"t.csv": b"image,label\n1.png,a\n3.png,b\n", **PAIR}),
        ("t.csv, line 3", "there is no image", "did you mean"),
    ),
    ("t.csv", only({"t.csv": b"image,label\n1.png,a\n2.png,\n", **PAIR}), ("t.csv, line 3: column 'label' is empty",)),
    ("t.csv", only({"t.csv": b"image,label\n1.png,a\n2.png\n", **PAIR}), ("t.csv, line 3", "columns found: 1, expected: 2")),
    ("t.csv", only({"t.csv": b"url,kind\n1.png,a\n2.png,b\n", **PAIR}), ("which column is the path", "data.columns=IMAGE,LABEL")),
    ("t.csv", only({"t.csv": b"image,label\n../1.png,a\n2.png,b\n", **PAIR}), ("is not looked for outside of",)),
    ("t.csv", only({"t.csv": b""}), ("t.csv is empty",)),
    ("t.csv", only({"t.csv": b"image,label\n"}), ("there are no images in it",)),
    ("t.tsv", only({"t.tsv": b"1.png\ta\n2.png\tb\n", "1.png": png(), "2.png": b"x"}), ("2.png is not an image",)),
    ("t.jsonl", only({"t.jsonl": b'{"image": "1.png"}\n', **PAIR}), ("which column is the path",)),
    ("t.jsonl", only({"t.jsonl": b'{"image": "1.png", "label": ["a"]}\n', **PAIR}), ("column 'label' is no text",)),
    (
        "t.jsonl",
        only({"t.jsonl": b'{"image": "1.png", "label": "a"}\n{"image"\n', **PAIR}),
        ("t.jsonl, line 2: this is not JSON",),
    ),
    ("t.jsonl", only({"t.jsonl": b'{"image": 7, "label": "a"}\n', **PAIR}), ("there is no image 7",)),
    # Built-in sets and the hub.
    ("builtin:shape/train", only({}), ("builtin:shape/train is not known",)),
    ("builtin:shapes", only({}), ("lacks a split",)),
    ("builtin:shapes/dev", only({}), ("no split 'dev'",)),
    ("builtin:shapes@count=0/train", only({}), ("@count must be at least 1",)),
    ("photos@split=train", photos({}), ("@split= chooses arrays of an .npz file",)),
    ("hf:", only({}), ("is not hf:NAME",)),
]


@pytest.mark.parametrize(("entry", "make", "told"), DATA_MISTAKES, ids=[f"{n}-{m[0]}" for n, m in enumerate(DATA_MISTAKES)])
def test_wrong_training_data(entry: str, make: Make, told: tuple[str, ...], tmp_path: Path) -> None:
    make(tmp_path)
    before = contents(tmp_path)
    command = ["train", *MODELS["convnet"], *SMALL, f"data.train={entry}", DATA[1], "data.test="]
    refused(regard(*command, "--out", tmp_path / "run", "--device", "cpu"), "data.train", *told)
    assert contents(tmp_path) == before


SETTING_MISTAKES: list[tuple[list[str], tuple[str, ...]]] = [
    (["data.train="], ("data.train is empty", "builtin:shapes/train")),
    (["data.valid="], ("data.valid is empty", "data.valid_fraction=0.1")),
    (["data.resize=cut"], ("data.resize=cut is not a choice", "crop")),
    (["data.columns=image"], ("data.columns has 1 names", "image,label")),
    (["data.columns=image,image"], ("names a column twice",)),
    (["data.limit=-1"], ("data.limit=-1 must be 0 (all) or more",)),
    (["data.valid=", "data.valid_fraction=1.5"], ("data.valid_fraction=1.5",)),
    (["data.flip=yes"], ("data.flip=yes must be true or false",)),
    (["data.crop=-2"], ("data.crop=-2 must be",)),
    (["data.randaugment=m99-n2"], ("data.randaugment=m99-n2 is not a policy", "m9-n2-mstd0.5")),
    (["data.mixup=-1"], ("data.mixup=-1.0 must be",)),
    (["data.cutmix=nan"], ("data.cutmix=nan must be",)),
    (["data.erasing=2"], ("data.erasing=2.0 must be",)),
    (["data.resized_crop=1.2"], ("data.resized_crop=1.2 must be",)),
    (["data.repeats=0"], ("data.repeats=0 must be",)),
    (["data.mixupp=1"], ("data.mixupp is not a setting", "data.mixup")),
    (["objective.smoothing=1"], ("objective.smoothing=1.0 must be",)),
    (["objective.name=classification"], ("objective.name=classification is not known for task.name=image_classification",)),
    (["model.family=bert"], ("model.family=bert is not known for task.name=image_classification",)),
    (["model.colours=2"], ("model.colours=2 is not a choice",)),
    (["model.image_size=0"], ("model.image_size=0 must be",)),
    (["text.size=100"], ("text.size is not a setting",)),
    (["train.compile=true"], ("train.compile=true is for models made of blocks alone",)),
]


@pytest.mark.parametrize(("settings", "told"), SETTING_MISTAKES, ids=[",".join(settings) for settings, _ in SETTING_MISTAKES])
def test_wrong_settings(settings: list[str], told: tuple[str, ...], tmp_path: Path) -> None:
    before = contents(tmp_path)
    command = ["train", *MODELS["convnet"], *SMALL, *DATA, *settings]
    refused(regard(*command, "--out", tmp_path / "run", "--device", "cpu"), *told)
    assert contents(tmp_path) == before


def test_labels_of_validation_and_test_that_training_does_not_know(tmp_path: Path) -> None:
    photos({})(tmp_path)
    photos({"photos/c/1.png": png()})(tmp_path / "more")
    command = ["train", *MODELS["convnet"], *SMALL, "data.train=photos", "--out", tmp_path / "run", "--device", "cpu"]
    refused(regard(*command, "data.valid=more/photos", "data.test="), "data.valid: more/photos/c/1.png: the label 'c'")
    refused(regard(*command, "data.valid=photos", "data.test=more/photos"), "data.test: more/photos/c/1.png: the label 'c'")
    assert not (tmp_path / "run").exists()


def test_a_test_set_with_other_labels_or_none_is_refused(tmp_path: Path) -> None:
    photos({})(tmp_path)
    refused(regard("evaluate", trained(), "data.test=photos"), "is not one that training knows")
    refused(regard("evaluate", trained(), "data.test=photos/a"), "is in no folder of a class")
    refused(regard("evaluate", trained(), "data.test=gone.npz"), "gone.npz does not exist")


def test_a_link_that_leads_out_a_pipe_and_a_folder_that_is_called_like_an_image(tmp_path: Path) -> None:
    photos({})(tmp_path)
    (tmp_path / "secret.png").write_bytes(png())
    command = ["train", *MODELS["convnet"], *SMALL, "data.train=photos", DATA[1], "data.test=", "--device", "cpu"]
    (tmp_path / "photos" / "a" / "9.png").symlink_to(tmp_path / "secret.png")
    refused(regard(*command, "--out", tmp_path / "run"), "leads out of photos")
    (tmp_path / "photos" / "a" / "9.png").unlink()
    (tmp_path / "photos" / "a" / "9.png").mkdir()
    refused(regard(*command, "--out", tmp_path / "run"), "the class '9.png' has no image")


def test_images_that_were_changed_since_are_noticed(tmp_path: Path) -> None:
    """A run is not continued on other images: one pixel is enough."""
    photos({})(tmp_path)
    settings = ["data.train=photos", "data.valid=photos", "data.test=", "train.steps=2"]
    train(tmp_path / "run", "convnet", *settings)
    (tmp_path / "photos" / "a" / "0.png").write_bytes(png(11))
    command = ["train", *MODELS["convnet"], *SMALL, *DATA, *settings, "train.steps=4", "--out", tmp_path / "run"]
    refused(regard(*command, "--device", "cpu"), "train")


HANDLED: list[tuple[str, dict[str, bytes]]] = [
    ("cmyk", {"photos/a/9.jpg": png(8, "JPEG", "CMYK")}),
    ("palette", {"photos/a/9.png": png(8, "PNG", "P")}),
    ("grey", {"photos/a/9.png": png(8, "PNG", "L")}),
    ("one bit", {"photos/a/9.png": png(8, "PNG", "1")}),
    ("grey with transparency", {"photos/a/9.png": png(8, "PNG", "LA")}),
    ("transparency", {"photos/a/9.webp": png(8, "WEBP", "RGBA")}),
    ("other files", {"photos/a/Thumbs.db": b"x", "photos/a/.DS_Store": b"x", "photos/readme.txt": b"x"}),
    ("hidden folders", {"photos/.ipynb_checkpoints/1.png": b"x", "photos/__MACOSX/a/._1.png": b"x"}),
    ("capitals", {"photos/a/9.PNG": png()}),
]


@pytest.mark.parametrize(("what", "files"), HANDLED, ids=[what for what, _ in HANDLED])
def test_what_is_unusual_and_right_is_read(what: str, files: dict[str, bytes], tmp_path: Path) -> None:
    photos(files)(tmp_path)
    command = ["train", *MODELS["convnet"], *SMALL, "data.train=photos", "data.valid=photos", "data.test=", "--dry-run"]
    result = regard(*command, "--device", "cpu")
    assert result.code == 0, result.err
    assert f"train: {6 + (what not in ('other files', 'hidden folders'))} images" in result.out + result.err
