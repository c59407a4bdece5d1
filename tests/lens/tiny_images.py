"""Small models that read images, never trained, and one drawn image before each of them: what tests of images share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from regard.families import FAMILIES
from regard.families.base import Heads, Sizes
from regard.lens.image_subject import image_subject
from regard.lens.subject import Subject

NAMES = ("circle", "square", "triangle", "star")
SIDE, PATCH = 24, 6  # pixels
KINDS = {
    "class": {},
    "mean": {"pooling": "mean", "class_token": False},
    "mean beside a class token": {"pooling": "mean"},
    "sequence": {"pooling": "sequence", "class_token": False},
    "groups": {"kv_heads": 1},
    "rotary": {"position": "rotary"},
    "deit": {},
}


@cache
def model_of(kind: str = "class", **more: Any) -> Any:
    torch.set_num_threads(1)
    if kind == "latent":
        return latent_model()
    family = FAMILIES["deit" if kind == "deit" else "vit"]
    sizes = {"width": 16, "heads": 2, "layers": 3, "feedforward": 24, "image_size": SIDE, "patch": PATCH}
    model = family.build(
        family.config(**{**sizes, **KINDS[kind], **more}), Sizes(vocabulary=0, heads=Heads(classes=len(NAMES))), 3
    ).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():  # the published starting values attend to all patches nearly alike
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(12)
            elif not parameter.any():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    return model


@cache
def latent_model() -> Any:
    """A Perceiver of five latents that reads the same images."""
    family = FAMILIES["perceiver"]
    config = family.config(width=24, latents=5, layers=2, heads=3, image_size=SIDE, bands=3, input_width=12)
    model = family.build(config, Sizes(vocabulary=0, heads=Heads(words=False, classes=len(NAMES))), 1).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(12)
    return model


def image() -> np.ndarray:
    image_YXC = np.random.default_rng(2).integers(0, 120, (SIDE, SIDE, 3), np.uint8)
    image_YXC[6:12, 12:18] = (230, 40, 30)
    return image_YXC


@cache
def subject(kind: str = "class") -> Subject:
    return subject_of(model_of(kind), image())


def subject_of(model: Any, image_YXC: np.ndarray, target: int | None = None) -> Subject:
    return image_subject(model, image_YXC, "drawn.png", NAMES, target)
