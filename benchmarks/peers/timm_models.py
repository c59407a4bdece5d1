"""timm's models, also where torchvision cannot be imported: they read no image, and of torchvision need names alone.

timm imports its data loading with its models, and that imports torchvision, which is not built for every torch on a CPU. Where
it is missing, an empty package stands in its place: nothing of it is ever run by a model.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from torch import nn


class _Named(type):
    """A class with any attribute: its name."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Named(name, (), {}) if name[0].isupper() else importlib.import_module(f"{self.__name__}.{name}")


class _Finder:
    """Finds an empty module for torchvision and all below it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torchvision" else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def vision_transformer(**shape: Any) -> nn.Module:
    """Build timm's ViT of this shape."""
    if importlib.util.find_spec("torchvision") is None:
        sys.meta_path.append(_Finder())  # type: ignore[arg-type]
    from timm.models.vision_transformer import VisionTransformer

    made: nn.Module = VisionTransformer(**shape)
    return made
