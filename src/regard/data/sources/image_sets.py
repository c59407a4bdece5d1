"""Sets of images, with labels or without, from whatever people have, as bytes of one size.

    "photos/" "photos.tar.gz" "set.npz" "train-images-idx3-ubyte.gz" "data_batch_1.bin"      see `image_arrays.py`
    "labels.csv" "labels.tsv"      a path and a label in each row; a first row of column names is understood
    "labels.jsonl"                 {"image": "1.jpg", "label": "dog"} on each line (.ndjson too)
    "hf:NAME@CONFIG:SPLIT"         `datasets` opens NAME; @CONFIG and :SPLIT (train) may be left out
    "builtin:shapes/train"         drawn images of ten classes (`builtin/shapes.py`); builtin:shapes@count=9/train: the first 9
    "photo.png"                    one image, where no labels are needed

Tables may be gzipped; their images are beside them, or where `images` says, a folder or a .tar archive. Several entries are read
one after the other. `resize` says how an image becomes a square of `size` pixels: cut to its middle (`crop`), or squeezed
(`squash`). Grey is what the eye makes of colours; grey images have three equal colours where three are needed. Transparent ones
lie on white; a photograph is turned as its camera says. All images are read before training begins, so that an
unreadable one is reported then, not in the middle of an epoch.

Dims: N images, Y X rows and columns, C colours.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

from regard.core.errors import UserError
from regard.core.files import format_size, read_bounded
from regard.data.builtin.shapes import draw_shapes, shapes_entry
from regard.data.sources.columns import words
from regard.data.sources.files import JSON_LINES, must_be_file, suffix_of
from regard.data.sources.image_arrays import (
    FILES,
    LARGEST_IMAGE,
    ImageArrays,
    grey,
    image_files,
    image_names,
    is_idx,
    is_image_folder,
    read_cifar,
    read_idx_pair,
    read_npz,
)
from regard.data.sources.images import decode_image, identify_image, image_errors, read_contents
from regard.data.sources.records import Record, hub_records, json_records, table_records, table_rows

Resize = Literal["crop", "squash"]
TABLES = (".csv", ".tsv")
CHOOSE = "data.columns=IMAGE,LABEL"
PATHS = frozenset(str.split("image images img file files filename path filepath picture photo name"))
LABELS = frozenset(str.split("label labels class category target breed species y"))
AT_ONCE = 256  # images that are decoded together
MOVING = (".gif", ".webp", ".png")  # files that may have several frames


class Form(NamedTuple):
    """The form that all images of a set are given."""

    size: int  # pixels, of each side
    colours: int = 3  # 1: grey
    resize: Resize = "crop"

    def of(self, picture: Image.Image) -> np.ndarray:
        """Return image_YXC of this form."""
        if picture.size != (self.size, self.size):
            if self.resize == "crop":
                (wide, high), side = picture.size, min(picture.size)
                left, top = (wide - side) // 2, (high - side) // 2
                picture = picture.crop((left, top, left + side, top + side))
            picture = picture.resize((self.size, self.size), Image.Resampling.BILINEAR)
        pixels = np.asarray(picture)
        return self.coloured(pixels, is_grey=pixels.ndim == 2)

    def coloured(self, pixels: np.ndarray, is_grey: bool = False) -> np.ndarray:
        """Return images of this many colours; their last dimension is red, green and blue, and grey ones have none for it."""
        if self.colours == 1:
            return (pixels if is_grey else grey(pixels))[..., None]
        return np.repeat(pixels[..., None], 3, -1) if is_grey else pixels


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size, with a label each or without."""

    pixels_NYXC: np.ndarray  # bytes
    labels: tuple[str, ...] | None
    names: tuple[str, ...]  # where each is from, for people
    classes: tuple[str, ...] = ()  # the labels that a file knows, in its own order; none: any
    notes: tuple[str, ...] = ()  # what was done to some images, said once

    def __post_init__(self) -> None:
        counts = {len(self.pixels_NYXC), len(self.names), len(self.labels if self.labels is not None else self.names)}
        if len(counts) > 1:
            raise ValueError(f"{len(self.pixels_NYXC)} images, {len(self.names)} names, and other labels")

    def __len__(self) -> int:
        return len(self.pixels_NYXC)

    def take(self, rows: np.ndarray) -> ImageSet:
        """Return these images, in this order."""
        labels = None if self.labels is None else tuple(self.labels[row] for row in rows)
        return ImageSet(self.pixels_NYXC[rows], labels, tuple(self.names[row] for row in rows), self.classes, self.notes)

    def looks(self) -> list[bytes]:
        """Return a key of each image that is equal for equal pixels."""
        return [hashlib.sha256(image_YXC.tobytes()).digest() for image_YXC in self.pixels_NYXC]

    def digest(self) -> str:
        """Return a hash of all pixels and labels."""
        found = hashlib.sha256(repr(self.pixels_NYXC.shape).encode())
        found.update(np.ascontiguousarray(self.pixels_NYXC).data)
        found.update("\0".join(self.labels or ()).encode("utf-8", "surrogatepass"))
        return found.hexdigest()


def read_image_set(
    where: Sequence[str],
    form: Form,
    *,
    columns: tuple[str, ...] = (),
    images: str = "",
    limit: int | None = None,
    labelled: bool = True,
) -> ImageSet:
    """Read the images of all entries, or the first `limit`; of a folder by class, these are some of each class."""
    if not where:
        raise UserError("no images are named; give a folder, a table of paths, or builtin:shapes/train.")
    entries, parts, left = list(where), list[ImageSet](), limit
    while entries and left != 0:
        entry = entries.pop(0)
        beside = Path(entries.pop(0)) if is_idx(entry) and labelled and entries and _is_labels(entry, entries[0]) else None
        parts.append(_read(entry, form, columns, images, left, labelled, beside))
        left = None if left is None else left - len(parts[-1])
    if len(parts) == 1:
        return parts[0]
    classes = tuple(dict.fromkeys(name for part in parts for name in part.classes)) if all(part.classes for part in parts) else ()
    labels = tuple(chain.from_iterable(part.labels or () for part in parts)) if labelled else None
    names, notes = (tuple(chain.from_iterable(getattr(part, key) for part in parts)) for key in ("names", "notes"))
    return ImageSet(np.concatenate([part.pixels_NYXC for part in parts]), labels, names, classes, notes)


def _is_labels(images: str, entry: str) -> bool:
    return is_idx(entry) and ("label" in Path(entry).name or "images" not in Path(images).name)


def _read(
    entry: str, form: Form, columns: tuple[str, ...], images: str, limit: int | None, labelled: bool, beside: Path | None
) -> ImageSet:
    if entry.startswith("builtin:"):
        return _drawn(entry, form, limit, labelled)
    if entry.startswith("hf:"):
        return _of_hub(entry, form, columns, limit, labelled)
    name, at, split = entry.partition("@split=")
    path = Path(name if at else entry).expanduser()
    lower = path.name.lower()
    if at and not lower.endswith(".npz"):
        raise UserError(f"{entry}: @split= chooses arrays of an .npz file, and {path} is none; leave it out.")
    if is_image_folder(path):
        return _of_folder(path, form, limit, labelled)
    if lower.endswith((".npz", ".bin")) or is_idx(lower):
        if lower.endswith(".npz"):
            found = read_npz(path, split, labelled)
        else:
            found = read_cifar(path) if lower.endswith(".bin") else _of_idx(path, beside, labelled)
        return _of_arrays(entry, found, form, limit, labelled)
    if suffix_of(path) in (*TABLES, *JSON_LINES):
        return _of_table(path, form, columns, images, limit, labelled)
    must_be_file(path)
    if not labelled and path.suffix.lower() in FILES:
        return _decoded([(str(path), read_bounded(path, LARGEST_IMAGE))], 1, form, None)
    one = " One image has no label; put it into a folder that is called like its label." if path.suffix.lower() in FILES else ""
    raise UserError(
        f"{path} is no set of images; give a folder of images by class, an archive of one (.tar.gz), .npz, .idx, CIFAR's .bin, "
        f"or a table of paths and labels (.csv, .tsv, .jsonl).{one}"
    )


# --- each kind -------------------------------------------------------------------------------------------------------------
def _drawn(entry: str, form: Form, limit: int | None, labelled: bool) -> ImageSet:
    split, count, number = shapes_entry(entry)
    numbers = range(count if limit is None else min(limit, count)) if number is None else range(number, number + 1)
    pixels_NYXC, labels = draw_shapes(split, numbers, form.size)
    names = tuple(f"builtin:shapes/{split}/{n}" for n in numbers)
    return ImageSet(form.coloured(pixels_NYXC), tuple(labels) if labelled else None, names)


def _of_folder(path: Path, form: Form, limit: int | None, labelled: bool) -> ImageSet:
    names = image_names(path, labelled)
    if labelled:  # mixed, always alike: a limit then takes some of each class
        names = [names[n] for n in np.random.default_rng(0).permutation(len(names))]
    names = names[:limit]
    files = image_files(path, names=names)
    among = f"{path}, " if path.is_file() else f"{path}/"
    made = _decoded(((f"{among}{file.name}", file.content) for file in files), len(names), form, None)
    order = {name: n for n, name in enumerate(made.names)}  # an archive has an order of its own
    made = made.take(np.array([order[f"{among}{name}"] for name in names]))
    labels = tuple(Path(name).parent.name for name in names) if labelled else None
    return ImageSet(made.pixels_NYXC, labels, made.names, (), made.notes)


def _of_idx(path: Path, beside: Path | None, labelled: bool) -> ImageArrays:
    if labelled:
        return read_idx_pair(path, beside)
    from regard.data.sources.image_arrays import read_idx

    images = read_idx(path)
    if images.ndim != 3:
        raise UserError(f"{path} holds an array of {images.ndim} dimensions, and images have 3: number, rows, columns.")
    return ImageArrays(images, [""] * len(images), ())


def _of_arrays(entry: str, found: ImageArrays, form: Form, limit: int | None, labelled: bool) -> ImageSet:
    images = found.images[:limit]
    if images.shape[1:3] == (form.size, form.size):
        pixels_NYXC = np.concatenate([_own(form.coloured(part, images.ndim == 3)) for part in _parts(images)])
    else:
        pixels_NYXC = np.stack([form.of(Image.fromarray(image)) for image in images])
    labels = tuple(found.labels[: len(images)]) if labelled else None
    names = tuple(f"{entry}, image {n + 1}" for n in range(len(images)))
    return ImageSet(pixels_NYXC, labels, names, found.classes if labelled else ())


def _parts(images: np.ndarray) -> Iterator[np.ndarray]:
    return (images[start : start + 4096] for start in range(0, len(images), 4096))


def _own(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels)


def _of_table(path: Path, form: Form, columns: tuple[str, ...], images: str, limit: int | None, labelled: bool) -> ImageSet:
    rows = list(islice(_named_in(path, columns, labelled), limit))
    if not rows:
        raise UserError(f"{path}: there are no images in it. Write a path and a label on each line.")
    among = Path(images).expanduser() if images else path.parent
    needed = dict[str, str]()
    for place, name, _ in rows:
        needed.setdefault(name, place)
    made = _decoded(((name, content) for name, content in read_contents(among, needed)), len(needed), form, str(among))
    row = {name: n for n, name in enumerate(made.names)}
    taken = made.take(np.array([row[name] for _, name, _ in rows]))
    return ImageSet(taken.pixels_NYXC, tuple(label for *_, label in rows) if labelled else None, taken.names, (), made.notes)


def _named_in(path: Path, columns: tuple[str, ...], labelled: bool) -> Iterator[tuple[str, str, str]]:
    """Yield place, path and label of each row of a table."""
    is_json = suffix_of(path) in JSON_LINES
    chosen = columns
    if not columns:
        names = list(next(json_records(path, ("image", "label")))[1]) if is_json else next(table_rows(path))[1]
        chosen = _guess(path, [str(name) for name in names], labelled, is_json)
    chosen = chosen if labelled else chosen[:1]
    records = json_records(path, chosen) if is_json else table_records(path, table_rows(path), chosen)
    for record in records:
        name = _cell(record, chosen[0])
        yield record[0], name, _cell(record, chosen[1]) if labelled else ""


def image_columns(path: Path) -> tuple[str, ...]:
    """Return the column of paths that the header of a table names, with a second for a label; none where it has no header."""
    is_json = suffix_of(path) in JSON_LINES
    names = list(next(json_records(path, ("image",)))[1]) if is_json else next(table_rows(path))[1]
    image = [name for name in map(str, names) if PATHS & set(words(name)) and not Path(name).suffix]
    return (image[0], "label") if len(image) == 1 else ()


def _guess(path: Path, names: Sequence[str], labelled: bool, sure: bool) -> tuple[str, ...]:
    """Choose the columns by their names; a table whose first row is no header has the path first and the label behind it."""
    image = [name for name in names if PATHS & set(words(name)) and not Path(name).suffix]
    label = [name for name in names if LABELS & set(words(name)) and name not in image]
    if len(image) == 1 and (len(label) == 1 or not labelled):
        return (image[0], *label[:1])
    if not sure and len(names) == 1 + labelled and (Path(names[0]).suffix or not labelled):
        return ("0", "1")[: 1 + labelled]
    raise UserError(
        f"{path}, line 1: which column is the path of an image and which its label? It has {names[:8]}; choose: {CHOOSE}."
    )


def _cell(record: Record, column: str) -> str:
    place, values = record
    if column not in values:
        raise UserError(
            f"{place}: there is no column {column!r}; it has {', '.join(map(repr, list(values)[:8]))}. Choose with {CHOOSE}."
        )
    value = values[column]
    if isinstance(value, bool | int):
        value = str(value).lower()
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        said = "empty" if value is None or value == "" or str(value).isspace() else f"no text: {str(value)[:40]!r}"
        raise UserError(f"{place}: column {column!r} is {said}; write a path or a label there, or take the line out.")
    return value.strip()


def _of_hub(entry: str, form: Form, columns: tuple[str, ...], limit: int | None, labelled: bool) -> ImageSet:
    image, label = (*columns, "image", "label")[:2] if columns else ("", "")
    pixels, labels, names = list[np.ndarray](), list[str](), list[str]()
    for place, values in islice(hub_records(entry, classes=True), limit):
        image = image or next((name for name, value in values.items() if isinstance(value, Image.Image)), "image")
        label = label or next((name for name in values if LABELS & set(words(name))), "label")
        picture = values.get(image)
        if not isinstance(picture, Image.Image):
            raise UserError(
                f"{place}: column {image!r} is no image; it has {', '.join(map(repr, values))}. Choose with {CHOOSE}."
            )
        with image_errors(f"{place}, column {image}"):
            pixels.append(form.of(picture.convert("RGB")))
        labels.append(_cell((place, values), label) if labelled else "")
        names.append(place)
    if not pixels:
        raise UserError(f"{entry} has no rows; name another split, such as {entry.partition(':')[0]}:NAME:test.")
    return ImageSet(np.stack(pixels), tuple(labels) if labelled else None, tuple(names))


# --- decoding --------------------------------------------------------------------------------------------------------------
def _decoded(found: Iterable[tuple[str, bytes]], count: int, form: Form, among: str | None) -> ImageSet:
    """Decode images by several threads; errors name the first image that cannot be read. `among` is where they lie."""
    pixels_NYXC, names, moving = _empty(count, form), list[str](), 0
    waiting = iter(found)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        while part := list(islice(waiting, AT_ONCE)):
            told = [(f"{among}, {name}" if among else name, content) for name, content in part]
            for (name, _), (image_YXC, frames) in zip(part, pool.map(lambda one: _decode(one[0], one[1], form), told)):
                pixels_NYXC[len(names)] = image_YXC
                names.append(name)
                moving += frames
    notes = (f"{moving:,} of {len(names):,} images have several frames, and of each the first is taken",) if moving else ()
    return ImageSet(pixels_NYXC[: len(names)], None, tuple(names), (), notes)


def _decode(name: str, content: bytes, form: Form) -> tuple[np.ndarray, bool]:
    """Return image_YXC, and whether the file has several frames."""
    picture = decode_image(content, name)
    moves = False
    if name.lower().endswith(MOVING):
        with image_errors(name):
            moves = bool(getattr(identify_image(content, name), "is_animated", False))
    return form.of(picture), moves


def _empty(count: int, form: Form) -> np.ndarray:
    shape = (count, form.size, form.size, form.colours)
    try:
        return np.empty(shape, np.uint8)
    except (MemoryError, ValueError):
        room = format_size(count * form.size**2 * form.colours)
        raise UserError(
            f"{count:,} images of {form.size} pixels take {room} of memory; lower model.image_size or data.limit."
        ) from None


def open_images(names: Sequence[str], form: Form) -> ImageSet:
    """Open single images for a prediction: files, folders of files, or builtin:shapes/test/7."""
    return read_image_set(names, form, labelled=False)
