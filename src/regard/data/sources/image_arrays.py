"""Images with labels from files that hold many of them: arrays, batches of bytes, and folders or archives by class.

    "photos/" "photos.tar.gz"       a folder of images for each class (.png, .jpg, ...), or the same in an archive
    "set.npz"                       arrays `images` and `labels`, or `x` and `y`: N x rows x columns (x 1 or 3 colours), and N
    "mnist.npz@split=test"          of several splits: `x_test` and `y_test`, or `test_images` and `test_labels`
    "train-images-idx3-ubyte.gz"    MNIST's format; its labels are beside it, or named behind it
    "data_batch_1.bin"              CIFAR-10's binary batches: a byte for the label, then 1,024 each of red, green and blue

CIFAR-10's python batches are pickles, which can run any program when they are opened: they never are here; its binary version has
the same images. Dims: N images, Y X rows and columns, C colours.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from regard.core.errors import UserError
from regard.core.files import GIB, MIB, open_maybe_gzipped, open_regular, read_bounded, refuse_bomb
from regard.data.sources.files import archive_members, is_archive

FILES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".pgm", ".ppm")
LARGEST_IMAGE, LARGEST_BATCH = 64 * MIB, 8 * GIB  # bytes of a file with one image, and of one with many
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_SIDE = 32
GREY = np.array([0.299, 0.587, 0.114])  # of red, green and blue, what the eye makes of them
KEYS = (("images", "labels"), ("x", "y"))
SPLIT_KEYS = (("x_{}", "y_{}"), ("{}_images", "{}_labels"), ("{}_x", "{}_y"))


class ImageArrays(NamedTuple):
    images: np.ndarray  # bytes; NYX are grey, NYXC have colours
    labels: list[str]
    classes: tuple[str, ...]  # in the order of their numbers


class ImageFile(NamedTuple):
    label: str  # the folder that it is in
    name: str
    content: bytes


def grey(images: np.ndarray) -> np.ndarray:
    """Convert images whose last dimension is red, green and blue to grey, rounded."""
    return np.rint(images @ GREY).astype(np.uint8)


# --- folders and archives --------------------------------------------------------------------------------------------------
def is_image_folder(path: Path) -> bool:
    return path.is_dir() or is_archive(path)


def image_files(path: Path, labelled: bool = True, names: Sequence[str] | None = None) -> Iterator[ImageFile]:
    """Yield the images of a folder or an archive: those of `names`, by default all, in the order of `image_names`.

    A gzipped archive can only be read forwards: its images come in its own order.
    """
    wanted = set(image_names(path, labelled) if names is None else names)
    if is_archive(path):
        found = archive_members(path, wanted.__contains__, LARGEST_IMAGE)
        yield from (ImageFile(PurePosixPath(name).parent.name, name, content) for name, content in found)
        return
    for name in sorted(wanted) if names is None else names:
        yield ImageFile(PurePosixPath(name).parent.name, name, read_bounded(path / name, LARGEST_IMAGE, within=path))


def image_names(path: Path, labelled: bool = True) -> list[str]:
    """List the images below a folder or in an archive, by their paths, sorted; labelled ones lie in a folder for each class."""
    folders = set[PurePosixPath]()
    if is_archive(path):
        every = _members(path)
    else:
        below = [found for found in path.rglob("*") if not _hidden(found.relative_to(path))]
        folders = {PurePosixPath(found.relative_to(path).as_posix()) for found in below if found.is_dir()}
        every = [PurePosixPath(found.relative_to(path).as_posix()) for found in below if not found.is_dir()]
    names = sorted(name for name in every if name.suffix.lower() in FILES and not _hidden(name))
    if not names:
        others = sorted({name.suffix for name in every if name.suffix})
        said = f" Its files end in {', '.join(others[:5])}; save them as .png or .jpg." if others else ""
        asked = f"expected is a folder for each label, with files named *{', *'.join(FILES[:3])} in it." if labelled else ""
        raise UserError(f"{path} holds no pictures{': ' * bool(asked)}{asked or '.'}{said}")
    if labelled:
        _must_be_by_class(path, names, folders)
    return list(map(str, names))


def _members(path: Path) -> list[PurePosixPath]:
    """Return the names of all files in an archive, without reading their content."""
    every = list[PurePosixPath]()

    def noted(name: str) -> bool:
        every.append(PurePosixPath(name))
        return False

    list(archive_members(path, noted, LARGEST_IMAGE))
    return every


def _hidden(name: PurePosixPath | Path) -> bool:
    """Return True for what programs leave behind: .ipynb_checkpoints, ._photo.jpg, __MACOSX."""
    return any(part.startswith((".", "__")) and part not in (".", "..") for part in name.parts)


def _must_be_by_class(path: Path, names: Sequence[PurePosixPath], folders: set[PurePosixPath]) -> None:
    """Refuse images without a class, classes without an image, and a class that is in two places."""
    if bare := [name for name in names if len(name.parts) == 1]:
        raise UserError(
            f"{path}: {bare[0]} is in no folder of a class, and {len(bare):,} images are not; put each image into a folder that "
            "is called like its label, or take it out."
        )
    classes = dict[str, PurePosixPath]()
    for parent in dict.fromkeys(name.parent for name in names):
        if classes.setdefault(parent.name, parent) != parent:
            one, other = sorted((classes[parent.name], parent))
            raise UserError(
                f"{path} has the class {parent.name!r} twice, in {one} and in {other}; give one of these folders of classes, "
                f"such as {path / one.parent}, or several one after the other."
            )
    leaves = {folder for folder in folders if not any(folder in other.parents for other in folders)}
    if empty := sorted(leaves - set(classes.values())):
        raise UserError(f"{path}: the class {empty[0].name!r} has no image; put some into {path / empty[0]}, or take it out.")


# --- arrays ----------------------------------------------------------------------------------------------------------------
def read_cifar(path: Path) -> ImageArrays:
    content, row = np.frombuffer(read_bounded(path, LARGEST_BATCH), np.uint8), 1 + 3 * CIFAR_SIDE**2
    if not len(content) or len(content) % row or content[::row].max() >= len(CIFAR10):
        raise UserError(
            f"{path} is not a batch of CIFAR-10's binary version, whose pictures have {row:,} bytes each, a label from 0 to 9 "
            "first. Take data_batch_1.bin ... test_batch.bin, not CIFAR-100's."
        )
    rows = content.reshape(-1, row)
    images_NYXC = rows[:, 1:].reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE).transpose(0, 2, 3, 1)
    return ImageArrays(images_NYXC, [CIFAR10[label] for label in rows[:, 0]], CIFAR10)


def read_npz(path: Path, split: str = "", labelled: bool = True) -> ImageArrays:
    keys = [(image.format(split), label.format(split)) for image, label in SPLIT_KEYS] if split else list(KEYS)
    expected = "expected are numpy arrays of numbers or text, `images` and `labels`, or `x` and `y`"
    try:
        with open_regular(path) as file:
            for member in ZipFile(file).infolist():
                refuse_bomb(path, member.file_size, member.compress_size)
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                chosen = next((pair for pair in keys if pair[0] in arrays and (pair[1] in arrays or not labelled)), None)
                if chosen is None:
                    raise KeyError(f"it has {', '.join(map(repr, arrays.files)) or 'nothing'}")
                images: np.ndarray = arrays[chosen[0]]
                labels: np.ndarray = arrays[chosen[1]] if chosen[1] in arrays else np.zeros(len(images), np.int64)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError, MemoryError) as error:
        told = str(error).strip('"')  # a KeyError quotes its text
        more = "; of several splits choose one, such as @split=train" if "train" in told and not split else ""
        raise UserError(f"{path} cannot be read as pictures ({told}); {expected}{more}.") from None
    if images.ndim == 4 and images.shape[1] in (1, 3) and images.shape[3] not in (1, 3):
        images = images.transpose(0, 2, 3, 1)  # as torch lays them out
    if images.ndim == 4 and images.shape[3] == 1:
        images = images[..., 0]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]  # as Keras has them
    return ImageArrays(_whole(path, images, labels), *_named(path, labels))


def _whole(path: Path, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return images as bytes; another shape or another range of numbers is refused."""
    colours = images.ndim == 4 and images.shape[3] == 3
    if not (colours or images.ndim == 3) or not images.size or labels.shape != images.shape[:1]:
        raise UserError(
            f"{path}: images are {'x'.join(map(str, images.shape))}, labels {'x'.join(map(str, labels.shape))}; expected are N x "
            "rows x columns (x 3 colours) with values from 0 to 255, and N labels."
        )
    if images.dtype != np.uint8:
        least, most = images.min(), images.max()
        if not (least >= 0 and most <= 255):  # also where there is a NaN
            raise UserError(f"{path}: images go from {least:g} to {most:g}; expected are values from 0 to 255.")
        if not (images == np.rint(images)).all():
            raise UserError(
                f"{path}: images have fractions, such as 0.5; expected are whole numbers from 0 to 255: multiply them."
            )
    return images.astype(np.uint8, copy=False)


def _named(path: Path, labels: np.ndarray) -> tuple[list[str], tuple[str, ...]]:
    """Return each label as text, and all of them in their order: numbers by value, texts by the alphabet."""
    if np.issubdtype(labels.dtype, np.floating) and not (labels == np.rint(labels)).all():
        raise UserError(f"{path}: labels are numbers such as {labels.flat[0]:g}; classes are whole numbers, or texts.")
    if np.issubdtype(labels.dtype, np.floating):
        labels = labels.astype(np.int64)
    values, numbers = np.unique(labels, return_inverse=True)
    classes = tuple(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values.tolist())
    return [classes[n] for n in numbers], classes


# --- MNIST's format --------------------------------------------------------------------------------------------------------
def is_idx(name: str) -> bool:
    """Return True if the name is one of MNIST's: train-images-idx3-ubyte.gz, or any that ends in .idx."""
    bare = name.lower().removesuffix(".gz")
    return bare.endswith((".idx", ".idx1", ".idx3", "-ubyte", ".ubyte"))


def read_idx(path: Path) -> np.ndarray:
    """Read an array of bytes from an idx file, which may be gzipped."""
    with open_maybe_gzipped(path) as file:
        begin = file.read(4)
        if len(begin) < 4 or begin[:3] != b"\0\0\x08" or not 1 <= begin[3] <= 4:
            raise UserError(
                f"{path} is not an idx file of bytes: it begins with {begin.hex() or 'nothing'}, not 000008 and 1 to 4."
            )
        sizes = file.read(4 * begin[3])
        shape = tuple(int.from_bytes(sizes[n : n + 4], "big") for n in range(0, len(sizes), 4))
        expected = prod(shape)
        if len(shape) < begin[3] or not 0 < expected <= LARGEST_BATCH:
            raise UserError(f"{path} says that it holds {'x'.join(map(str, shape))} bytes; it is damaged: copy it again.")
        content = file.read(expected + 1)
    if len(content) != expected:
        much = "more" if len(content) > expected else f"{len(content):,}"
        raise UserError(f"{path} says that it holds {expected:,} bytes, and has {much}; it is cut or damaged: copy it again.")
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_idx_pair(path: Path, labels: Path | None = None) -> ImageArrays:
    """Read images and labels; labels that are not named lie beside the images, with `labels` and `1` in the name."""
    images = read_idx(path)
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
        raise UserError(
            f"{path} holds an array of {images.ndim} dimensions, and images have 3: number, rows, columns. Labels come second: "
            "data.train=IMAGES,LABELS."
        )
    beside = labels or path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1"))
    if labels is None and (beside == path or not beside.exists()):
        raise UserError(f"{path}: its labels were looked for at {beside}; name them behind it: {path},LABELS.")
    numbers = read_idx(beside)
    if numbers.shape != images.shape[:1]:
        raise UserError(
            f"{path} has {len(images):,} images, and {beside} has {len(numbers):,} labels; give those that belong to them."
        )
    return ImageArrays(images[..., 0] if images.shape[3:] == (1,) else images, *_named(beside, numbers))
