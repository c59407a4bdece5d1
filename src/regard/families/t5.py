"""T5: every task as text in and text out, by an encoder-decoder whose positions are biases by distance.

Raffel et al. 2020, section 2.1; version 1.1 and its kin (Flan-T5, mT5, ByT5) by Shazeer 2020 and the authors' release notes.
Against the Transformer of 2017: norms before sublayers, without mean and bias; no bias in any layer; scores that are not divided
by the root of the head width; one table of biases for each stack, shared by its layers; heads of any width.

                         T5 (1.0)                        T5 1.1, Flan-T5, mT5, ByT5
    feed-forward         relu                            gated, gelu: model.feedforward_kind=gated model.activation=gelu_tanh
    output layer         the embedding, its input        a matrix of its own, not scaled:
                         divided by sqrt(D)              model.tie=inputs model.scaled_head=false

Differs from the paper in: dropout inside attention, inside the feed-forward network and behind each stack is off by default; a
checkpoint that is imported brings its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.families.base import Family
from regard.families.transformer import Transformer, TransformerConfig, pair_inputs
from regard.model.layers import NormKind


@dataclass(frozen=True, kw_only=True)
class T5Config(TransformerConfig):
    """The defaults are those of T5 small, version 1.0."""

    family: Literal["t5"] = "t5"  # type: ignore[assignment]
    head_width: int = 64
    bias: bool = False
    scaled: bool = False
    norm: NormKind = "rms"
    norm_placement: Literal["pre", "post"] = "pre"
    norm_epsilon: float = 1e-6
    position: str = "relative"
    maximum_length: int = 512
    scaled_embeddings: bool = False
    scaled_head: bool = True


FAMILY = Family(
    name="t5",
    config=T5Config,
    build=lambda config, sizes, seed: Transformer(config, sizes.vocabulary, sizes.written, seed),
    inputs=pair_inputs,
    capabilities=frozenset({"seq2seq", "attention", "blocks"}),
)
