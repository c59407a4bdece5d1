"""The families of models. Each is a file of this folder that ends with `FAMILY = Family(...)`, found by its name when it is used.

FAMILIES["gpt"]           the value, imported now; KeyError for an unknown name, without any import
family_of(model)          the family of a model, or of its config
list(FAMILIES)            all names, without importing any
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.config import LazyRegistry

if TYPE_CHECKING:
    from regard.data.batching.labelled import SpecialTokens
    from regard.families.base import Family
    from regard.families.flops import Part
    from regard.text.specials import Roles

_files = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.py"))}
_names = [name for name, path in _files.items() if "\nFAMILY = Family(" in path.read_text("utf-8")]
FAMILIES: LazyRegistry[Family] = LazyRegistry({name: f"regard.families.{name}:FAMILY" for name in _names})


def family_of(model: Any) -> Family:
    """Return the family of a config, or of a model that has a config; of a classifier or a two-tower model, its body's."""
    inner = getattr(model, "body", model)
    return FAMILIES[getattr(inner, "config", inner).family]


def marks_of(config: Any, roles: Roles) -> SpecialTokens:
    """Return the special tokens that this family puts before, between and after texts, from this vocabulary."""
    return family_of(config).marks(config, roles)


def build_model(config: Any, seed: int = 0, **sizes: Any) -> Any:
    """Return a new model of these settings; `sizes` are fields of `base.Sizes`."""
    from regard.families.base import Sizes

    return family_of(config).build(config, Sizes(**sizes), seed)


def count_model(config: Any, length: int, source: int = 0, scored: int | None = None, **sizes: Any) -> Part:
    """Return the tree of a model with its parameters and operations (see `Family.count`)."""
    from regard.families.base import Sizes

    return family_of(config).count(config, Sizes(**sizes), length, source, scored)
