"""Images from files: whatever is in a folder or an archive, as squares of red, green and blue, 0 to 255.

The whole image is made square, so that nothing a caption speaks of is cut off. Grey becomes three equal colours; what is
transparent lies on white; a photograph is turned as its camera says.

Dims: N images, Y X rows and columns, C colours.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, ImageOps

from regard.core.errors import UserError, nearest
from regard.core.files import MIB, read_bounded
from regard.data.sources.files import ARCHIVES, archive_members, is_archive

KINDS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "PPM")
"""Common formats. Of Pillow's forty others, some start other programs, and few have been tested against hostile files."""

LARGEST = 64 * MIB  # of a file
PIXELS = 64_000_000
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # more than PIXELS are refused anyway


def read_images(where: Path, needed: Mapping[str, str], side: int) -> np.ndarray:
    """Read images_NYXC by name, in order, from a folder or an archive; `needed` says what each is for, for errors."""
    images_NYXC = np.empty((len(needed), side, side, 3), np.uint8)
    places = {name: n for n, name in enumerate(needed)}
    for name, content in read_contents(where, needed):
        images_NYXC[places[name]] = square(
            decode_image(content, f"{where}, {name}" if is_archive(where) else str(where / name)), side
        )
    return images_NYXC


def read_contents(where: Path, needed: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each image that is needed, from a folder or an archive; a missing one is refused."""
    found = set[str]()
    for name, content in _in_archive(where, needed) if is_archive(where) else _in_folder(where, needed):
        found.add(name)
        yield name, content
    if missing := [name for name in needed if name not in found]:
        more = f" (and {len(missing) - 1:,} more are missing)" if len(missing) > 1 else ""
        raise UserError(
            f"{needed[missing[0]]}: there is no image {missing[0]!r} in {where}{more}; name where they are, a folder or a .tar "
            "archive, by data.images."
        )


def read_image(path: Path) -> Image.Image:
    """Read one image in its original size."""
    return decode_image(read_bounded(path, LARGEST), str(path))


def read_named(where: Path, name: str, needs: str) -> Image.Image:
    """Read one image of a folder or an archive in its original size; `needs` says what it is for, for errors."""
    found = _in_archive(where, [name]) if is_archive(where) else _in_folder(where, {name: needs})
    if contents := [content for _, content in found]:
        return decode_image(contents[-1], name)
    raise UserError(f"{needs}: there is no image {name!r} in {where}; name where they are by data.images.")


def decode_image(content: bytes, name: str, pixels: int = PIXELS) -> Image.Image:
    """Decode an image of a limited number of pixels."""
    with image_errors(name):
        picture = ImageOps.exif_transpose(identify_image(content, name, pixels))
        if picture.mode.startswith(("I", "F")):
            raise ValueError(f"its pixels are of mode {picture.mode}, and 8 bits a colour are expected")
        if picture.has_transparency_data:
            picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture.convert("RGBA"))
        return picture.convert("RGB")


def identify_image(content: bytes, name: str, pixels: int = PIXELS) -> Image.Image:
    """Open an image to learn its format and size, without decoding it; call it inside of `image_errors`."""
    try:
        found = Image.open(io.BytesIO(content), formats=KINDS)
    except Image.UnidentifiedImageError:
        raise ValueError(f"it is none of {', '.join(KINDS)}") from None
    wide, high = found.size
    if wide * high > pixels:
        raise UserError(f"{name} has {wide:,} × {high:,} pixels, and {pixels:,} are taken at most; give it smaller.")
    return found


@contextmanager
def image_errors(name: str) -> Iterator[None]:
    """Turn any error of an image into a sentence."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # Pillow's readers raise whatever the bytes lead them to: AttributeError, struct.error, ...
        reason = (
            str(error).partition("<_io")[0].rstrip() or type(error).__name__
        )  # Pillow names the object in memory that it read
        raise UserError(
            f"{name} is not an image that can be read ({reason}). Save it again as .png or .jpg, or take it out."
        ) from None


def square(picture: Image.Image, side: int) -> np.ndarray:
    resized = picture if picture.size == (side, side) else picture.resize((side, side), Image.Resampling.BILINEAR)
    return np.array(resized)  # a copy, which may be written to


def _in_folder(folder: Path, needed: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        raise UserError(f"data.images={folder} is neither a folder nor an archive ({', '.join(ARCHIVES)}); name one of them.")
    for name, needs in needed.items():
        path = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise UserError(
                f"{needs}: the image {name!r} is not looked for outside of {folder}; write its path inside of that folder, and "
                "set data.images to the folder that has all of them."
            )
        if not os.path.exists(path):  # noqa: PTH110  (also where the name is none: too long, or with a NUL)
            close = nearest(path.name, [other.name for other in islice(folder.iterdir(), 1000)]) if path.parent == folder else "."
            raise UserError(f"{needs}: there is no image {path}{close} data.images names where they are.")
        try:
            yield name, read_bounded(path, LARGEST, within=folder)
        except UserError as error:
            raise UserError(f"{needs}: {error}") from None


def _in_archive(path: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the images of these names, by their whole path or its last part; the last one of a name counts."""
    wanted, paths = set(names), dict[str, str]()  # by which each was found

    def called(member: str) -> str:
        return member if member in wanted else PurePosixPath(member).name

    for member, content in archive_members(path, lambda member: called(member) in wanted, LARGEST):
        name = called(member)
        if paths.get(name) == name != member:
            continue
        if name != member != paths.setdefault(name, member):
            raise UserError(f"{path}: {paths[name]} and {member} are both called {name!r}; name them by their whole path.")
        paths[name] = member
        yield name, content
