"""Pictures with labels as sequences of grey pixels, row by row: 0 is black, 255 is white.

They come from folders, archives, CIFAR-10's binary batches and arrays, as `sources/image_arrays.py` reads them. Grey is what the
eye makes of colours, 0.299 red + 0.587 green + 0.114 blue, rounded (Tay et al. 2021 take the same). All pictures of a set have
one size; `@side=32` behind a name (photos@side=32) shrinks or enlarges them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regard.core.errors import UserError
from regard.data.lra import Sequences
from regard.data.sources.files import ARCHIVES
from regard.data.sources.image_arrays import grey, image_files, image_names, is_image_folder, read_cifar, read_npz

GREYS = tuple(map(str, range(256)))


def is_pictures(entry: str) -> bool:
    """Return True if the entry names images and not texts, judging by its name alone."""
    name = entry.partition("@side=")[0]
    return name.lower().endswith((*ARCHIVES, ".bin", ".npz")) or (":" not in entry and Path(name).expanduser().is_dir())


def read_pictures(entry: str, limit: int | None = None) -> Sequences:
    name, given, value = entry.partition("@side=")
    if given and not (value.isascii() and value.isdecimal() and 1 <= int(value[:6]) <= 1024):
        raise UserError(f"{entry}: @side={value} must be a whole number of pixels from 1 to 1024, such as @side=32.")
    path, side = Path(name).expanduser(), int(value) if given else None
    if is_image_folder(path):
        images, labels, names = _labelled(path, side)
    else:
        found = read_cifar(path) if path.name.lower().endswith(".bin") else read_npz(path)
        number = {label: n for n, label in enumerate(found.classes)}
        labels = np.array([number[label] for label in found.labels])
        names = tuple(label.replace(" ", "_") for label in found.classes)
        images = _resized(grey(found.images) if found.images.ndim == 4 else found.images, side)
    images, labels = images[:limit], labels[:limit]
    lengths = np.full(len(images), images[0].size)
    return Sequences(GREYS, images.reshape(-1), lengths, names, labels, entry)


def _labelled(path: Path, side: int | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    order = image_names(path)
    by_name = dict[str, tuple[np.ndarray, str]]()
    shape: tuple[int, ...] = ()
    for label, name, content in image_files(path, names=order):
        picture = _opened(f"{path}, {name}" if path.is_file() else str(path / name), content, side)
        shape = shape or picture.shape
        if picture.shape != shape:
            (y, x), (first_y, first_x) = picture.shape, shape
            raise UserError(f"{name} is {x} x {y} pixels, the first {first_x} x {first_y}; make them alike: {path}@side=32.")
        by_name[name] = picture, label
    pictures, labels = zip(*(by_name[name] for name in order))
    names = tuple(sorted(set(labels)))
    number = {name: n for n, name in enumerate(names)}
    # Mixed, always alike: a limit then takes some of each label.
    mixed = np.random.default_rng(0).permutation(len(pictures))
    return np.stack(pictures)[mixed], np.array([number[label] for label in labels])[mixed], names


def _opened(name: str, content: bytes, side: int | None) -> np.ndarray:
    from regard.data.sources.images import decode_image, square  # Pillow; who reads no pictures need not wait for it

    picture = decode_image(content, name)
    return grey(square(picture, side) if side is not None else np.asarray(picture))


def _resized(images: np.ndarray, side: int | None) -> np.ndarray:
    if side is None or images.shape[1:] == (side, side):
        return images
    from PIL import Image

    return np.stack([np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)) for image in images])
