"""BART: an encoder-decoder that learns to repair text, and mBART, the same in many languages.

Lewis et al. 2020, section 2.1; Liu et al. 2020 for mBART. Against the Transformer of 2017: GELU, learned positions, a norm of the
embeddings, and a bias of each word in the output layer, which is the embedding. The table of positions has two rows before the
first, a habit of fairseq.

                  BART                     mBART
    norms         after sublayers          before: model.norm_placement=pre
    embeddings    as they are              times sqrt(D): model.scaled_embeddings=true
    an output     begins after </s>        begins after its language, decode.start=de_DE
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.families.base import Family
from regard.families.transformer import Transformer, TransformerConfig, pair_inputs
from regard.model.layers import Activation


@dataclass(frozen=True, kw_only=True)
class BARTConfig(TransformerConfig):
    """The defaults are those of BART base."""

    family: Literal["bart"] = "bart"  # type: ignore[assignment]
    width: int = 768
    heads: int = 12
    feedforward: int = 3072
    activation: Activation = "gelu"
    position: str = "learned"
    first_position: int = 2
    scaled_embeddings: bool = False
    embedding_norm: bool = True
    head_bias: bool = True


FAMILY = Family(
    name="bart",
    config=BARTConfig,
    build=lambda config, sizes, seed: Transformer(config, sizes.vocabulary, sizes.written, seed),
    inputs=pair_inputs,
    capabilities=frozenset({"seq2seq", "attention", "blocks"}),
)
