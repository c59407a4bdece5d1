"""Images from files: whatever is in a folder or an archive, as squares of red, green and blue, 0 to 255.

The whole image is made square, so that nothing a caption speaks of is cut off. Grey becomes three equal colours; what is
transparent lies on white; a photograph is turned as its camera says.

Dims: N images, Y X rows and columns, C colours.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, ImageOps

from regard.data.files import must_be_file
from regard.errors import UserError, nearest

ARCHIVES = (".tar", ".tar.gz", ".tgz")


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES)


def read_images(where: Path, needed: Mapping[str, str], side: int) -> np.ndarray:
    """images_NYXC of these names, in their order, in a folder or an archive; of each, who needs it (for complaints)."""
    images_NYXC = np.empty((len(needed), side, side, 3), np.uint8)
    places, found = {name: n for n, name in enumerate(needed)}, set[str]()
    for name, content in _in_archive(where, places) if is_archive(where) else _in_folder(where, needed):
        images_NYXC[places[name]] = square(decoded(content, f"{where}, {name}" if is_archive(where) else str(where / name)), side)
        found.add(name)
    if missing := [name for name in needed if name not in found]:
        more = f" (and {len(missing) - 1:,} more are missing)" if len(missing) > 1 else ""
        raise UserError(
            f"{needed[missing[0]]}: there is no image {missing[0]!r} in {where}{more}; name where they are, a folder or a .tar "
            "archive, by data.images."
        )
    return images_NYXC


def read_image(path: Path) -> Image.Image:
    """One image, as large as it is."""
    must_be_file(path)
    try:
        return decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check who may read it.") from None


def read_named(where: Path, name: str, needs: str) -> Image.Image:
    """One of a folder's or an archive's images, as large as it is; `needs` says who wants it (for complaints)."""
    found = _in_archive(where, [name]) if is_archive(where) else _in_folder(where, {name: needs})
    if contents := [content for _, content in found]:
        return decoded(contents[-1], name)
    raise UserError(f"{needs}: there is no image {name!r} in {where}; name where they are by data.images.")


def decoded(content: bytes, name: str) -> Image.Image:
    try:
        picture = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
        if picture.mode.startswith(("I", "F")):
            raise ValueError(f"its pixels are of mode {picture.mode}, and 8 bits a colour are expected")
        if picture.has_transparency_data:
            picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture.convert("RGBA"))
        return picture.convert("RGB")
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        told = str(error).partition("<_io")[0].rstrip()  # Pillow names the object in memory that it read
        raise UserError(
            f"{name} is not an image that can be read ({told}). Save it again as .png or .jpg, or take it out."
        ) from None


def square(picture: Image.Image, side: int) -> np.ndarray:
    resized = picture if picture.size == (side, side) else picture.resize((side, side), Image.Resampling.BILINEAR)
    return np.array(resized)  # a copy, which may be written to


def _in_folder(folder: Path, needed: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        raise UserError(f"data.images={folder} is neither a folder nor an archive ({', '.join(ARCHIVES)}); name one of them.")
    for name, needs in needed.items():
        path = folder / name
        try:
            yield name, path.read_bytes()
        except FileNotFoundError:
            close = nearest(path.name, [other.name for other in folder.iterdir()]) if path.parent == folder else "."
            raise UserError(f"{needs}: there is no image {path}{close} data.images names where they are.") from None
        except OSError as error:
            raise UserError(f"{needs}: {path} cannot be read: {error.strerror}. Check who may read it.") from None


def _in_archive(path: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Those of these names, by the whole path inside it or the last part of that; the last that comes by a name counts."""
    wanted, paths = set(names), dict[str, str]()  # by which each was found
    must_be_file(path)
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name if member.name in wanted else PurePosixPath(member.name).name
                if name not in wanted or paths.get(name) == name != member.name or not member.isfile():
                    continue
                if name != member.name != paths.setdefault(name, member.name):
                    raise UserError(
                        f"{path}: {paths[name]} and {member.name} are both called {name!r}; name them by their whole path."
                    )
                paths[name] = member.name
                if content := archive.extractfile(member):
                    yield name, content.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{path} is not a whole archive ({error}). Copy or download it again.") from None
