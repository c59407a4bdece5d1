"""A family of your own: a Transformer with a one-layer decoder, which decodes faster (Kasai et al. 2021).

    regard train translate model.family=shallow_decoder --plugin examples/family.py --out runs/shallow

A family is one value: a frozen dataclass of settings, how a model is built from it, example inputs, and what it can do. This one
chooses parts that exist; a new module goes the same way.
"""

from dataclasses import dataclass, replace
from typing import Literal

import regard
from regard.families.base import Sizes
from regard.families.transformer import FAMILY as TRANSFORMER
from regard.families.transformer import Transformer, TransformerConfig


@dataclass(frozen=True, kw_only=True)
class ShallowDecoderConfig(TransformerConfig):
    """Settings of the [model] section: those of the Transformer."""

    family: Literal["shallow_decoder"] = "shallow_decoder"  # type: ignore[assignment]
    decoder_layers: int = 1


def build(config: ShallowDecoderConfig, sizes: Sizes, seed: int) -> Transformer:
    """Return a new model with random weights."""
    return Transformer(config, sizes.vocabulary, sizes.written, seed)


regard.register.family(replace(TRANSFORMER, name="shallow_decoder", config=ShallowDecoderConfig, build=build))
