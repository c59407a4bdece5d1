"""Build any family of models from its settings, for your own PyTorch code.

    from regard import models

    gpt = models.build("gpt", vocabulary=1_000, width=64, heads=4, layers=2, feedforward=256, maximum_length=128)
    logits_BLV = gpt(ids_BL)
    models.families()      # every name
    models.config("gpt")   # its settings, a dataclass; `regard explain model` says what they mean

`regard.families.base.CAPABILITIES` says what a model of each capability takes and returns.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.core.config import build as checked
from regard.core.errors import UserError, nearest
from regard.families import FAMILIES
from regard.families.base import Family, Heads, Sizes

__all__ = ["Family", "Heads", "Sizes", "build", "config", "families", "find"]


def families() -> list[str]:
    """Return the names of all families, registered ones included."""
    return list(FAMILIES)


def find(family: str) -> Family:
    """Return the family of this name: its settings, how it is built, example inputs and capabilities."""
    if family not in FAMILIES:
        raise UserError(f"there is no family {family!r}{nearest(family, FAMILIES)}")
    return FAMILIES[family]


def config(family: str, **settings: Any) -> Any:
    """Return the settings of a family as its frozen dataclass, with the defaults of a recipe for those not given."""
    return checked(find(family).config, {**settings, "family": family}, "model")


def build(
    family: str, vocabulary: int, *, target_vocabulary: int = 0, outputs: Heads | None = None, seed: int = 0, **settings: Any
) -> nn.Module:
    """Build a new model with random weights.

    `vocabulary` counts the tokens it reads, `target_vocabulary` those that an encoder-decoder writes (0: the same). `outputs` are
    the output heads of an encoder. `settings` are the keys of a recipe's [model] section.
    """
    sizes = Sizes(vocabulary=vocabulary, target_vocabulary=target_vocabulary, heads=outputs or Heads())
    return find(family).build(config(family, **settings), sizes, seed)
