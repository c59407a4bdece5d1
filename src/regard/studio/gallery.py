"""Images that can be given to a model: those of the run, by name, and uploads, kept for a while.

What is handed in may be any bytes. Its size is bounded before it is read, its pixels before they are decoded, and only few kinds
are tried (`data.images.KINDS`). No name that a request has leads to a file: it is one of the run's, or of what was kept.

Dims: N images, Y X rows and columns, C colours.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

from regard.core.errors import UserError
from regard.data.sources.images import decode_image, square

LARGEST = 16 << 20  # bytes of a file
PIXELS = 40_000_000
SHOWN = 512  # pixels that an image is shown wide or high at most
THUMB = 64
KEPT = 24  # images handed in
HANDED = "upload:"


class Picture(NamedTuple):
    label: str  # for people
    read_YXC: np.ndarray  # as the model reads it
    shown_YXC: np.ndarray


class Shelf(NamedTuple):
    """Images of a run, as it reads them."""

    images_NYXC: np.ndarray
    names: Sequence[str]
    labels: Sequence[str]  # what is said of each: a caption, a class
    opened: Callable[[int], Image.Image]  # an image, by its number, in its own size


@dataclass(eq=False)
class Gallery:
    """Images of a run and uploads. `read` makes of an image what the model reads; the run's own are read at the first request."""

    read: Callable[[Image.Image], np.ndarray]
    listed: Callable[[], Shelf]
    kind: Literal["captions", "classes", "pixels", "questions"] = "captions"  # what is said of an image
    _handed: OrderedDict[str, Picture] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @cached_property
    def shelf(self) -> Shelf:
        return self.listed()

    def thumbnails(self, first: int, count: int) -> np.ndarray:
        """images_NYXC of as many as there are, small."""
        images_NYXC = self.shelf.images_NYXC[first : first + count]
        if not len(images_NYXC):
            raise UserError(f"there is no image {first}; there are {len(self.shelf.names)}, numbered from 0.")
        return np.stack([square(as_image(image_YXC), THUMB) for image_YXC in images_NYXC])

    def picture(self, name: str) -> Picture:
        with self._lock:
            if (kept := self._handed.get(name)) is not None:
                self._handed.move_to_end(name)
                return kept
        if name.startswith(HANDED):
            raise UserError("this image is no longer kept here; choose its file again, or one of the run's images.")
        if (place := self.place(name)) is None:
            raise UserError(f"{name[:80]!r} is none of this run's images; choose one of them, or hand in a file.")
        return self._picture(name, self.shelf.opened(place))

    def place(self, name: str) -> int | None:
        """Its number among the run's."""
        return next((n for n, own in enumerate(self.shelf.names) if own == name), None)

    def label(self, name: str) -> str | None:
        with self._lock:
            return self._handed[name].label if name in self._handed else None

    def take(self, content: bytes, label: str) -> str:
        """The name by which it can be asked for: the same file has the same."""
        return self._keep(content, self._picture(label, decode_image(content, label, PIXELS)))

    def keep(self, image_YXC: np.ndarray, label: str) -> str:
        """Keep an image that a model drew, as it drew it, like one that was handed in; return its name."""
        read_YXC = np.ascontiguousarray(image_YXC)
        return self._keep(read_YXC.tobytes(), Picture(label, read_YXC, np.array(as_image(read_YXC))))

    def _keep(self, content: bytes, made: Picture) -> str:
        name = f"{HANDED}{hashlib.sha256(content).hexdigest()[:20]}"
        with self._lock:
            self._handed[name] = made
            self._handed.move_to_end(name)
            while len(self._handed) > KEPT:
                self._handed.popitem(last=False)
        return name

    def _picture(self, label: str, image: Image.Image) -> Picture:
        read_YXC, shown = self.read(image), image.convert("RGB")
        shown.thumbnail((SHOWN, SHOWN))
        return Picture(label, read_YXC, np.array(shown))


def as_image(image_YXC: np.ndarray) -> Image.Image:
    """Return an image of red, green and blue, whatever colours a model reads."""
    return Image.fromarray(np.broadcast_to(image_YXC, (*image_YXC.shape[:2], 3)).copy())
