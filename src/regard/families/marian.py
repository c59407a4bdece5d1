"""Marian: the Transformer that the OPUS-MT translators are made of.

Junczys-Dowmunt et al. 2018; Tiedemann & Thottingal 2020. The Transformer of 2017 with SiLU (ReLU in the larger OPUS-MT models), a
bias of each word in the output layer, and positions whose sines all come before their cosines. Source and target share one
vocabulary, or have one each: model.tie=output. An output begins after the padding token, whose vector is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.families.base import Family
from regard.families.transformer import Transformer, TransformerConfig, pair_inputs
from regard.model.layers import Activation


@dataclass(frozen=True, kw_only=True)
class MarianConfig(TransformerConfig):
    """The defaults are those of opus-mt models."""

    family: Literal["marian"] = "marian"  # type: ignore[assignment]
    activation: Activation = "silu"
    position: str = "sinusoidal-halves"
    maximum_length: int = 512
    head_bias: bool = True


FAMILY = Family(
    name="marian",
    config=MarianConfig,
    build=lambda config, sizes, seed: Transformer(config, sizes.vocabulary, sizes.written, seed),
    inputs=pair_inputs,
    capabilities=frozenset({"seq2seq", "attention", "blocks"}),
)
