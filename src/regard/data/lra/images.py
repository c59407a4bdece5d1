"""Pictures with labels, from whatever people have, as sequences of grey pixels, row by row: 0 is black, 255 is white.

    "photos/"                    a folder with a folder of pictures for each label (.png, .jpg, ...)
    "photos.tar.gz"              the same in an archive (.tar too)
    "data_batch_1.bin"           CIFAR-10's binary batches: a byte for the label, then 1,024 each of red, green and blue
    "set.npz"                    arrays `images`, N x rows x columns (x 3 colours), and `labels`

Grey is what the eye makes of colours, 0.299 red + 0.587 green + 0.114 blue, rounded (Tay et al. 2021 take the same). All pictures
of a set have one size; `@side=32` behind a name (photos@side=32) shrinks or enlarges them. CIFAR-10's python batches are pickles,
which can run any program when they are opened: they never are here; its binary version has the same pictures.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

import numpy as np

from regard.core.errors import UserError
from regard.core.files import GIB, MIB, open_regular, read_bounded, refuse_bomb
from regard.data.lra import Sequences
from regard.data.sources.files import ARCHIVES, archive_members, is_archive

GREYS = tuple(map(str, range(256)))
FILES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".pgm", ".ppm")
LARGEST, LARGEST_BATCH = 64 * MIB, GIB  # bytes of a picture's file, and of a batch of CIFAR-10
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_SIDE = 32
WEIGHTS = np.array([0.299, 0.587, 0.114])


def is_pictures(entry: str) -> bool:
    """Return True if the entry names images and not texts, judging by its name alone."""
    name = entry.partition("@side=")[0]
    return name.lower().endswith((*ARCHIVES, ".bin", ".npz")) or (":" not in entry and Path(name).expanduser().is_dir())


def read_pictures(entry: str, limit: int | None = None) -> Sequences:
    name, given, value = entry.partition("@side=")
    if given and not (value.isascii() and value.isdecimal() and 1 <= int(value[:6]) <= 1024):
        raise UserError(f"{entry}: @side={value} must be a whole number of pixels from 1 to 1024, such as @side=32.")
    path, side = Path(name).expanduser(), int(value) if given else None
    if path.is_dir() or is_archive(path):
        images, labels, names = _labelled(path, _in_folder(path) if path.is_dir() else _in_archive(path), side)
    else:
        images, labels, names = _cifar(path, side) if path.name.lower().endswith(".bin") else _arrays(path, side)
    images, labels = images[:limit], labels[:limit]
    lengths = np.full(len(images), images[0].size)
    return Sequences(GREYS, images.reshape(-1), lengths, names, labels, entry)


def grey(images: np.ndarray) -> np.ndarray:
    """Convert images whose last dimension is red, green and blue to grey."""
    return np.rint(images @ WEIGHTS).astype(np.uint8)


def _in_folder(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield label, name and content of each image, sorted by name."""
    for file in sorted(file for file in path.rglob("*") if file.suffix.lower() in FILES and file.parent != path):
        yield file.parent.name, str(file), read_bounded(file, LARGEST, within=path)


def _in_archive(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield images in the order of the archive, since a gzipped archive can only be read forwards."""
    for name, content in archive_members(path, lambda name: PurePosixPath(name).suffix.lower() in FILES, LARGEST):
        if len(PurePosixPath(name).parts) > 1:
            yield PurePosixPath(name).parent.name, name, content


def _labelled(
    path: Path, found: Iterator[tuple[str, str, bytes]], side: int | None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    by_name = dict[str, tuple[np.ndarray, str]]()
    shape: tuple[int, ...] = ()
    for label, name, content in found:
        picture = _opened(name if Path(name).is_relative_to(path) else f"{path}, {name}", content, side)
        shape = shape or picture.shape
        if picture.shape != shape:
            (y, x), (first_y, first_x) = picture.shape, shape
            raise UserError(f"{name} is {x} x {y} pixels, the first {first_x} x {first_y}; make them alike: {path}@side=32.")
        by_name[name] = picture, label
    if not by_name:
        raise UserError(
            f"{path} holds no pictures: expected is a folder for each label, with files named *{', *'.join(FILES[:3])} in it."
        )
    pictures, labels = zip(*(by_name[name] for name in (sorted(by_name) if is_archive(path) else by_name)))
    names = tuple(sorted(set(labels)))
    number = {name: n for n, name in enumerate(names)}
    # Mixed, always alike: a limit then takes some of each label.
    order = np.random.default_rng(0).permutation(len(pictures))
    return np.stack(pictures)[order], np.array([number[label] for label in labels])[order], names


def _opened(name: str, content: bytes, side: int | None) -> np.ndarray:
    from PIL import Image  # comes with matplotlib; who reads no pictures need not wait for it

    from regard.data.sources.images import identify_image, image_errors

    with image_errors(name):
        picture = identify_image(content, name).convert("RGB")
        if side is not None:
            picture = picture.resize((side, side), Image.Resampling.BILINEAR)
        return grey(np.asarray(picture))


def _cifar(path: Path, side: int | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    content, row = np.frombuffer(read_bounded(path, LARGEST_BATCH), np.uint8), 1 + 3 * CIFAR_SIDE**2
    if not len(content) or len(content) % row or content[::row].max() >= len(CIFAR10):
        raise UserError(
            f"{path} is not a batch of CIFAR-10's binary version, whose pictures have {row:,} bytes each, a label from 0 to 9 "
            "first. Take data_batch_1.bin ... test_batch.bin, not CIFAR-100's."
        )
    rows = content.reshape(-1, row)
    colours = rows[:, 1:].reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE).transpose(0, 2, 3, 1)
    return _resized(grey(colours), side), rows[:, 0].astype(np.int64), CIFAR10


def _arrays(path: Path, side: int | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    try:
        with open_regular(path) as file:
            for member in ZipFile(file).infolist():
                refuse_bomb(path, member.file_size, member.compress_size)
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                images, labels = arrays["images"], arrays["labels"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError, MemoryError) as error:
        raise UserError(
            f"{path} cannot be read as pictures ({error}); expected are numpy arrays of numbers or text, `images` and `labels`."
        ) from None
    if images.ndim == 4 and images.shape[3] == 3:
        images = grey(images)
    if images.ndim != 3 or not images.size or labels.shape != images.shape[:1] or images.min() < 0 or images.max() > 255:
        raise UserError(
            f"{path}: images are {'x'.join(map(str, images.shape))}, labels {'x'.join(map(str, labels.shape))}; expected are N x "
            "rows x columns (x 3 colours) with values from 0 to 255, and N labels."
        )
    names, numbers = np.unique(labels, return_inverse=True)
    return _resized(images.astype(np.uint8), side), numbers.astype(np.int64), tuple(str(name).replace(" ", "_") for name in names)


def _resized(images: np.ndarray, side: int | None) -> np.ndarray:
    if side is None or images.shape[1:] == (side, side):
        return images
    from PIL import Image

    return np.stack([np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)) for image in images])
