"""Transformer-XL: a decoder whose layers attend to their inputs of earlier segments, with positions that are distances.

Dai et al. 2019. Against GPT:

    positions     learned vectors of places    scores of distances, (q + v) . W_R R_{i-j}, with u . k_j (section 3.3)
    memory        none                         the last model.memory inputs of each layer, without gradients (section 3.2)
    norm          before each sublayer         after it, or before it (`pre_lnorm` of the authors' code)
    biases        everywhere                   of the feed-forward and the output alone
    words         one matrix                   the same, times the root of the width, or clusters (model.cutoffs)

    WikiText-103, base    16 layers, width  410, 10 heads of 41, 151M parameters;  segments and memory of 150
    enwik8                12 layers, width  512,  8 heads of 64,  41M;             512

The memory is a setting of every decoder with such positions: `model.memory` of gpt and llama is the same.

Differs from the authors' code in: no dropout of the vectors of distances; weights of embeddings and layers are drawn alike.
Dims: B batch, L tokens, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor, nn

from regard.core.config import Bounds, Count
from regard.core.errors import UserError
from regard.families.base import Family, Sizes, random_ids
from regard.families.gpt import GPT, GPTConfig
from regard.model.embedding import VocabularyHead
from regard.model.init import initialise
from regard.model.layers import Activation
from regard.model.memory.adaptive import AdaptiveEmbedding, AdaptiveHead
from regard.model.position.relative import TransformerXL


@dataclass(frozen=True, kw_only=True)
class TransformerXLConfig(GPTConfig):
    """The defaults are those of the base model on WikiText-103."""

    family: Literal["transformer_xl"] = "transformer_xl"  # type: ignore[assignment]
    width: Count = 410
    heads: Count = 10
    layers: Count = 16
    feedforward: Count = 2100
    activation: Activation = "relu"
    norm_placement: Literal["pre", "post"] = "post"
    position: str = "transformer-xl"
    maximum_length: Count = 150  # tokens of a segment
    memory: Annotated[int, Bounds(0, zero="no memory")] = 150
    final_norm: bool = False  # of a pre-norm stack, behind its last layer; the authors' code has none
    clamp: Annotated[int, Bounds(0, zero="no limit")] = 0  # distances beyond it count as it
    untie: bool = True  # each layer has its own u and v; false: all have the same
    cutoffs: tuple[int, ...] = ()  # first tokens of the clusters of rarer words
    divisor: Count = 1  # by which vectors of each cluster are narrower than those of the one before
    embedding_width: Annotated[int, Bounds(0, zero="model.width")] = 0  # of the words of the first cluster
    tie_projections: bool = True  # of clusters behind the first: the same for embedding and output

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position != "transformer-xl":
            for key, value, usual in (("clamp", self.clamp, 0), ("untie", self.untie, True)):
                if value != usual:
                    raise UserError(
                        f"model.{key}={str(value).lower()} is for model.position=transformer-xl, not {self.position}; leave one "
                        "of them out."
                    )
        if self.final_norm and self.norm_placement == "post":
            raise UserError(
                "model.final_norm=true is for model.norm_placement=pre; with post each layer ends with a norm: leave it out."
            )
        self._check_clusters()

    def _check_clusters(self) -> None:
        if list(self.cutoffs) != sorted({*self.cutoffs}) or min(self.cutoffs, default=1) < 1:
            said = ",".join(map(str, self.cutoffs))
            raise UserError(f"model.cutoffs={said} must rise from 1 or more, such as 20000,40000,200000.")
        if self.divisor > 1 and not self.cutoffs:
            raise UserError(
                f"model.divisor={self.divisor} is for clusters of words; give model.cutoffs too, such as 20000,40000."
            )
        if not self.tie_projections and self.divisor == 1:
            raise UserError("model.tie_projections=false is for model.divisor above 1; leave it out.")
        if self.inner // self.divisor ** len(self.cutoffs) < 1:
            raise UserError(
                f"model.divisor={self.divisor} leaves nothing of {self.inner} numbers for the last of {len(self.cutoffs) + 1} "
                "clusters; lower it, or give fewer model.cutoffs."
            )

    @property
    def inner(self) -> int:
        """Width of the vectors of words before they are projected."""
        return self.embedding_width or self.width

    @property
    def adaptive(self) -> bool:
        """Are there clusters, or vectors of another width than the model?"""
        return bool(self.cutoffs) or self.inner != self.width


def build(config: TransformerXLConfig, sizes: Sizes, seed: int) -> GPT:
    """Build a GPT and put the parts in that differ."""
    c, vocabulary = config, sizes.vocabulary
    if c.cutoffs and c.cutoffs[-1] >= vocabulary:
        raise UserError(
            f"model.cutoffs ends with {c.cutoffs[-1]:,}, and the vocabulary has {vocabulary:,} tokens; give numbers below that."
        )
    model = GPT(config, vocabulary, seed)
    if c.position == "transformer-xl":
        model.decoder.position = TransformerXL(
            c.width, c.heads, c.key_width, c.layers, c.scaled, clamp=c.clamp, shared=not c.untie
        )
    if not c.final_norm:
        model.decoder.norm = None
    for block in model.decoder.blocks:
        for linear in (block.self_attention.project, block.self_attention.out):
            linear.bias = None  # type: ignore[assignment]
    model.embed.scale = c.width**0.5
    tied = c.tie == "output"
    if c.adaptive:
        words = AdaptiveEmbedding(vocabulary, c.width, c.inner, c.cutoffs, c.divisor)
        model.embed.tokens = words  # type: ignore[assignment]
        head: nn.Module = AdaptiveHead(words, c.inner, c.cutoffs, c.divisor, tie=tied, tie_projections=c.tie_projections)
    else:
        head = VocabularyHead(c.width, vocabulary, model.embed.tokens if tied else None, bias=True)
    model.head = head  # type: ignore[assignment]
    initialise(model, seed, deviation=0.02, residual_layers=2 * c.layers)
    return model


def _inputs(config: TransformerXLConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor]:
    """Return (ids_BL,)."""
    return (random_ids(sizes.vocabulary, batch, length),)


FAMILY = Family(
    name="transformer_xl",
    config=TransformerXLConfig,
    build=build,
    inputs=_inputs,
    capabilities=frozenset({"causal_lm", "pooled_vector", "attention", "blocks"}),
)
