"""A small ViT that was never trained, before a few drawn scenes, as `regard studio` would open it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from regard.data.sources.captions import open_captioned, read_captions
from regard.data.sources.images import square
from regard.lens.image_subject import image_subject
from regard.lens.subject import Subject
from regard.model.probe import probe
from regard.studio.gallery import Shelf
from regard.studio.image_session import ClassifierSession
from tests.lens.tiny_images import NAMES, SIDE, model_of

COUNT, PATCHES = 30, 4
SCENE = "builtin:scenes/test/3"


@dataclass
class TinyClassifier:
    model: Any

    def pixels(self, picture: Image.Image) -> np.ndarray:
        return square(picture, SIDE)

    def image_subject(self, image_YXC: np.ndarray, name: str, target: str | None = None) -> Subject:
        return image_subject(self.model, image_YXC, name, NAMES, None if target is None else NAMES.index(target))


def shelf() -> Shelf:
    found = read_captions([f"builtin:scenes@count={COUNT}/test"], "", SIDE)
    labels = [NAMES[n % len(NAMES)] for n in range(COUNT)]
    return Shelf(found.images_NYXC, [one.name for one in found.examples], labels, lambda n: open_captioned(found.examples[n]))


@cache
def classifier_session(kind: str = "class") -> ClassifierSession:
    return ClassifierSession(TinyClassifier(model_of(kind)), shelf, "image_classification", "never trained")


def weights(kind: str = "class") -> dict[str, np.ndarray]:
    """weights_HLM by attention, of a pass that studio has no part in."""
    model = model_of(kind)
    image = torch.from_numpy(square(open_scene(), SIDE))[None]
    with torch.no_grad(), probe(model) as seen:
        model(image)
        return {name: seen[name].weights()[0].numpy() for name in seen}


def open_scene() -> Image.Image:
    found = read_captions([f"builtin:scenes@count={COUNT}/test"], "", SIDE)
    return open_captioned(found.examples[3])


@dataclass(frozen=True)
class ClassifierOpening:
    kind: str = "class"
    folder: Path | None = None
    steps: tuple[int, ...] = ()

    def open(self, step: int | None) -> ClassifierSession:
        return classifier_session(self.kind)

    def version(self) -> str | None:
        return ""
