"""A small Image Transformer that was never trained, of two classes of images, as `regard studio` would open it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard.data.image_config import DrawingConfig
from regard.data.sources.image_sets import read_image_set
from regard.decode.config import DecodeConfig
from regard.families.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.studio.gallery import Shelf, as_image
from regard.studio.image_session import DrawingSession
from regard.tasks.image_generation.levels import Levels
from regard.tasks.image_generation.predict import ImageGenerator

SIDE, CLASSES = 6, ("day", "night")
NAME = "builtin:shapes/test/2"


@cache
def generator(pixels: str = "rgb", **more: Any) -> ImageGenerator:
    torch.set_num_threads(1)
    sizes = {"image_size": SIDE, "levels": 8, "width": 16, "heads": 2, "layers": 2, "feedforward": 24, "dropout": 0.0}
    config = ImageTransformerConfig(**{**sizes, "pixels": pixels, "classes": len(CLASSES), **more})  # type: ignore[arg-type]
    model = ImageTransformer(config, 4).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(6)
    return ImageGenerator(model, Levels(config, None, CLASSES), DecodeConfig(search="sample"), DrawingConfig(train=("x",)))


def shelf() -> Shelf:
    found = read_image_set(("builtin:shapes@count=5/test",), generator().levels.form("crop"))
    return Shelf(found.pixels_NYXC, found.names, found.labels or (), lambda n: as_image(found.pixels_NYXC[n]))


@cache
def drawing_session() -> DrawingSession:
    return DrawingSession(generator(), shelf, "image_generation", "never trained")


@dataclass(frozen=True)
class DrawingOpening:
    folder: Path | None = None
    steps: tuple[int, ...] = ()

    def open(self, step: int | None) -> DrawingSession:
        return drawing_session()

    def version(self) -> str | None:
        return ""
