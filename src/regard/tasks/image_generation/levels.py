"""Images as a model reads them: levels of their pixels, and back. The form belongs to the model, a palette to its weights.

Dims: N images, L levels of an image, M of its small image, Y X rows and columns, C colours, V colours of a palette.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.core.errors import UserError, nearest
from regard.data.batching.pixels import PixelData, shrunk
from regard.data.palette import as_bytes, even_bytes, even_levels, nearest_colours
from regard.data.sources.image_sets import Form, ImageSet, Resize
from regard.families.image_transformer import ImageTransformerConfig


@dataclass(frozen=True, eq=False)
class Levels:
    """How a model's images become levels."""

    config: ImageTransformerConfig
    palette_VC: np.ndarray | None = None  # colours from -1 to 1
    classes: tuple[str, ...] = ()

    def form(self, resize: Resize, side: int = 0) -> Form:
        """Return the form of images, by default of whole ones."""
        return Form(side or self.config.image_size, 1 if self.config.pixels == "grey" else 3, resize)

    def of(self, pixels_NYXC: np.ndarray) -> np.ndarray:
        """Return level_NL of images of any one size."""
        if self.palette_VC is None:
            return even_levels(pixels_NYXC, self.config.levels).reshape(len(pixels_NYXC), -1)
        found = nearest_colours(pixels_NYXC.reshape(-1, pixels_NYXC.shape[-1]), self.palette_VC)
        return found.reshape(len(pixels_NYXC), -1)

    def images(self, level_NL: np.ndarray, side: int) -> np.ndarray:
        """Return images_NYXC of bytes."""
        channels = level_NL.shape[1] // side**2
        shaped = level_NL.reshape(len(level_NL), side, side, channels)
        return even_bytes(shaped, self.config.levels) if self.palette_VC is None else as_bytes(self.palette_VC)[shaped[..., 0]]

    def data(self, found: ImageSet, split: str) -> PixelData:
        """Return images as a model is trained on them, with their classes and small images where it reads these."""
        small_NM = self.of(shrunk(found.pixels_NYXC, self.config.small)) if self.config.small else None
        return PixelData(self.of(found.pixels_NYXC), self._numbers(found, split) if self.config.classes else None, small_NM)

    def _numbers(self, found: ImageSet, split: str) -> np.ndarray:
        number = {name: n for n, name in enumerate(self.classes)}
        assert found.labels is not None
        for label, name in zip(found.labels, found.names):
            if label not in number:
                raise UserError(
                    f"data.{split}: {name}: the label {label!r} is not one that training knows{nearest(label, self.classes)}"
                )
        return np.array([number[label] for label in found.labels], np.int64)


def classes_of(found: ImageSet, config: ImageTransformerConfig) -> tuple[str, ...]:
    """Return the classes of training images, of which there must be as many as the model has; none of an unconditional model."""
    if not config.classes:
        return ()
    assert found.labels is not None
    classes = found.classes or _sorted(set(found.labels))
    if len(classes) != config.classes:
        raise UserError(
            f"data.train has {len(classes)} classes, and model.classes={config.classes}; set model.classes={len(classes)}, or 0 "
            "to draw without classes."
        )
    return classes


def _sorted(labels: set[str]) -> tuple[str, ...]:
    """Sort whole numbers by value, anything else by its letters."""
    by_size = all(label.isascii() and label.isdecimal() for label in labels)
    return tuple(sorted(labels, key=lambda label: (int(label) if by_size else 0, label)))
