"""The published sizes of families that read images, as fields of `published_sizes.Size`.

ViT             Dosovitskiy et al. 2021, table 1; counted with 1,000 classes, as released
ViT-Ti, S       Touvron et al. 2021 (DeiT), table 1, whose small models trained without a teacher are ViTs; with one, deit
Lite, CVT, CCT  Hassani et al. 2021, Escaping the big data paradigm with compact Transformers, table 2; 10 classes of 32 px
"""

from __future__ import annotations

from typing import Any

from regard.families.deit import DeiTConfig
from regard.families.vit import ViTConfig

VIT = "Dosovitskiy et al. 2021, An image is worth 16x16 words: Transformers for image recognition at scale"
DEIT = "Touvron et al. 2021, Training data-efficient image transformers & distillation through attention"
COMPACT = "Hassani et al. 2021, Escaping the big data paradigm with compact Transformers"
SHAPES = {"Ti": (12, 192, 3), "S": (12, 384, 6), "B": (12, 768, 12), "L": (24, 1024, 16), "H": (32, 1280, 16)}
"""Layers, width and heads of each letter."""


def _shape(size: str) -> dict[str, Any]:
    layers, width, heads = SHAPES[size]
    return {"layers": layers, "width": width, "heads": heads, "feedforward": 4 * width}


def _vit(size: str, patch: int, stated: float) -> dict[str, Any]:
    paper = DEIT if size in ("Ti", "S") else VIT
    config = ViTConfig(patch=patch, **_shape(size))
    return _row(f"vit-{size.lower()}-{patch}", f"ViT-{size}/{patch}", paper, config, stated)


def _deit(size: str, stated: float) -> dict[str, Any]:
    return _row(f"deit-{size.lower()}", f"DeiT-{size} distilled", DEIT, DeiTConfig(**_shape(size)), stated)


def _compact(name: str, layers: int, stated: float, width: int = 256, **parts: Any) -> dict[str, Any]:
    small: dict[str, Any] = {"layers": layers, "width": width, "heads": width // 64, "feedforward": 2 * width, "image_size": 32}
    return _row(name.lower().replace("/", "-"), name, COMPACT, ViTConfig(**(small | parts)), stated, classes=10)


def _row(name: str, title: str, paper: str, config: ViTConfig, stated: float, classes: int = 1000) -> dict[str, Any]:
    return {"name": name, "title": title, "paper": paper, "config": config, "stated": stated, "classes": classes}


_SEQUENCE: dict[str, Any] = {"pooling": "sequence", "class_token": False}
_CONVOLUTIONS: dict[str, Any] = _SEQUENCE | {"tokens": "convolutions"}
_NARROW: dict[str, Any] = {"width": 128, "heads": 2, "feedforward": 128, "token_layers": 2}

IMAGE_SIZES: tuple[dict[str, Any], ...] = (
    _vit("Ti", 16, 5.7e6),
    _vit("S", 16, 22e6),
    _vit("S", 32, 22.9e6),
    _vit("B", 16, 86e6),
    _vit("B", 32, 88e6),
    _vit("L", 16, 307e6),
    _vit("L", 32, 307e6),
    _vit("H", 14, 632e6),
    _deit("Ti", 5.9e6),
    _deit("S", 22.4e6),
    _deit("B", 87.3e6),
    _compact("ViT-Lite-7/4", 7, 3.72e6, patch=4),
    _compact("ViT-Lite-6/4", 6, 3.19e6, patch=4),
    _compact("CVT-7/4", 7, 3.72e6, patch=4, **_SEQUENCE),
    _compact("CVT-6/4", 6, 3.19e6, patch=4, **_SEQUENCE),
    _compact("CCT-2/3x2", 2, 0.28e6, **(_CONVOLUTIONS | _NARROW)),
    _compact("CCT-4/3x2", 4, 0.48e6, **(_CONVOLUTIONS | _NARROW)),
    _compact("CCT-7/3x1", 7, 3.76e6, **_CONVOLUTIONS),
)
