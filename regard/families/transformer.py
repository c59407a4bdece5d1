"""The Transformer: an encoder, a decoder that looks back at it, a softmax over words.

Vaswani et al. 2017, "Attention is all you need", section 3.

    base   6 + 6 layers, width  512,  8 heads, feed-forward 2048, dropout 0.1,  65M parameters
    big    6 + 6 layers, width 1024, 16 heads, feed-forward 4096, dropout 0.3, 213M parameters

Differs from the paper in nothing by default; pre-norm, GELU, learned or concatenated positions and windows are choices of parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.model.attention import KeysValues
from regard.model.block import BlockConfig
from regard.model.cache import Cache, Lineage
from regard.model.count import Part, embedding, learned_positions, linear, stack
from regard.model.embed import Embed, Join
from regard.model.heads import VocabularyHead
from regard.model.init import initialise
from regard.model.mixers import MIXERS
from regard.model.pattern import parse_visibility
from regard.model.position import PositionKind
from regard.model.stack import Stack
from regard.model.visibility import View, causal, padding


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockConfig):
    family: Literal["transformer"] = "transformer"
    layers: int = 6  # of encoder and decoder, where the next two are 0
    encoder_layers: int = 0
    decoder_layers: int = 0
    visibility: str = "full"  # laid over causal in the decoder and over padding in the encoder
    position: PositionKind = "sinusoidal"
    join: Join = "add"
    position_width: int = 0  # of the width, with join = "concat"
    maximum_length: int = 1024  # of learned positions
    tie: Literal["all", "output", "none"] = "all"  # one matrix for source, target and output; target and output; none

    def __post_init__(self) -> None:
        positive = ["width", "heads", "feedforward", "layers", "maximum_length"]
        for key in positive:
            if getattr(self, key) < 1:
                raise UserError(f"model.{key}={getattr(self, key)} must be at least 1.")
        for key in ("encoder_layers", "decoder_layers"):
            if getattr(self, key) < 0:
                raise UserError(f"model.{key}={getattr(self, key)} must be 0 (as model.layers) or more.")
        if self.width % self.heads:
            raise UserError(
                f"model.width={self.width} does not divide by model.heads={self.heads}; "
                f"the nearest width that does is {max(1, round(self.width / self.heads)) * self.heads}."
            )
        for key in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, key) < 1:
                raise UserError(f"model.{key}={getattr(self, key)} must be at least 0 and less than 1.")
        if not 0 < self.norm_epsilon < 1:
            raise UserError(f"model.norm_epsilon={self.norm_epsilon} must be between 0 and 1, such as 1e-5.")
        if self.mixer not in MIXERS:
            raise UserError(f"model.mixer={self.mixer!r} is not known; choose one of: {', '.join(MIXERS)}.")
        parse_visibility(self.visibility)
        concat = self.join == "concat"
        if concat and not 0 < self.position_width < self.width:
            raise UserError(
                f"model.join=concat needs model.position_width between 1 and {self.width - 1} (of the width {self.width}); "
                f"it is {self.position_width}."
            )
        if concat and self.position == "none":
            raise UserError("model.join=concat has nothing to join with model.position=none; choose sinusoidal or learned.")
        if not concat and self.position_width:
            raise UserError(
                f"model.position_width={self.position_width} needs model.join=concat; added positions have the whole width."
            )
        if concat and self.tie != "none":
            raise UserError("model.join=concat makes embeddings narrower than the output layer; add model.tie=none.")

    @property
    def depth(self) -> tuple[int, int]:
        return self.encoder_layers or self.layers, self.decoder_layers or self.layers


class Transformer(nn.Module):
    def __init__(self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.visibility = parse_visibility(config.visibility)
        encoder_layers, decoder_layers = config.depth
        self.source = self._embed(source_vocabulary)
        self.target = self._embed(target_vocabulary)
        if config.tie == "all":
            self.target.tokens = self.source.tokens
        self.encoder = Stack(config, encoder_layers, "encoder")
        self.decoder = Stack(config, decoder_layers, "decoder", cross=True)
        self.head = VocabularyHead(config.width, target_vocabulary, None if config.tie == "none" else self.target.tokens)
        initialise(self, seed)

    def _embed(self, vocabulary: int) -> Embed:
        c = self.config
        return Embed(
            vocabulary,
            c.width,
            position=c.position,
            join=c.join,
            position_width=c.position_width,
            maximum_length=c.maximum_length,
            dropout=c.dropout,
        )

    def forward(self, source_BM: Tensor, lengths_B: Tensor, target_BL: Tensor) -> Tensor:
        """logits_BLV for every target position at once; position l has seen targets 0..l (teacher forcing)."""
        memory_BMD, memory_view = self.encode(source_BM, lengths_B, target_BL.shape[1])
        view = (causal & self.visibility).over(target_BL.shape[1], target_BL.shape[1], device=target_BL.device)
        x_BLD = self.decoder(self.target(target_BL), view, self.decoder.remember(memory_BMD), memory_view)
        return self.head(x_BLD)

    def encode(self, source_BM: Tensor, lengths_B: Tensor, queries: int = 1) -> tuple[Tensor, View]:
        """memory_BMD, and the view of it that `queries` decoder positions have."""
        batch, length = source_BM.shape
        words = padding(lengths_B)
        view = (self.visibility & words).over(length, length, batch=batch, device=source_BM.device)
        memory_BMD = self.encoder(self.source(source_BM), view)
        return memory_BMD, words.over(queries, length, batch=batch, device=source_BM.device)

    @torch.no_grad()
    def start(self, source_BM: Tensor, lengths_B: Tensor) -> TransformerState:
        return TransformerState(self, source_BM, lengths_B)

    def step(
        self, ids_SW: Tensor, memories: list[KeysValues], memory_view: View, caches: list[Cache], lineage: Lineage
    ) -> Tensor:
        """logits_SWV after one more token in every lane: the sums of `forward`, with all before it taken from the caches."""
        x_SWD = self.target(ids_SW, lineage.position.expand(ids_SW.shape[1]))
        view = lineage.view(self.visibility)
        return self.head(self.decoder(x_SWD, view, memories, memory_view, caches))


def count(config: TransformerConfig, source_vocabulary: int, target_vocabulary: int, source: int, target: int) -> Part:
    """The model as a tree of parts with their parameters and the operations of one pair of these lengths."""
    c, (encoder_layers, decoder_layers) = config, config.depth
    narrow = c.width - c.position_width
    parts = [embedding("source embedding", source_vocabulary, narrow)]
    parts += [embedding("target embedding", target_vocabulary, narrow, tied=c.tie == "all")]
    if c.position == "learned":
        wide = c.position_width or c.width
        parts += [learned_positions(f"{side} positions", c.maximum_length, wide) for side in ("source", "target")]
    parts += [stack("encoder", c, encoder_layers, source), stack("decoder", c, decoder_layers, target, source)]
    head = Part(
        "vocabulary head",
        f"D={c.width} -> V={target_vocabulary:,}" + ("" if c.tie == "none" else " (shared)"),
        "model/heads.py",
        linear(c.width, target_vocabulary, bias=False) if c.tie == "none" else 0,
        2 * target * c.width * target_vocabulary,
    )
    return Part("transformer", f"B,M and B,L -> B,L,V={target_vocabulary:,}", "families/transformer.py", children=(*parts, head))


class TransformerState:
    """What the decoder has seen so far: cached keys and values, and the encoder's, which never change."""

    def __init__(self, model: Transformer, source_SM: Tensor, lengths_S: Tensor) -> None:
        self.model = model
        memory_SMD, self.memory_view = model.encode(source_SM, lengths_S)
        self.lengths_S = lengths_S
        # Laid out head by head once, since every step of the search reads them.
        self.memories = [KeysValues(k.contiguous(), v.contiguous()) for k, v in model.decoder.remember(memory_SMD)]
        self.lineage = Lineage(source_SM.shape[0], source_SM.device)
        heads, head_width = self.memories[0].k_BHMK.shape[1], self.memories[0].k_BHMK.shape[3]
        self.caches = [Cache(self.lineage, source_SM.shape[0], heads, head_width, memory_SMD) for _ in model.decoder.blocks]

    @torch.no_grad()
    def step(self, ids_SW: Tensor) -> Tensor:
        self.model.target.positions.check(self.lineage.length + 1)
        self.lineage.reserve()
        for cache in self.caches:
            cache.reserve()
        logits_SWV = self.model.step(ids_SW, self.memories, self.memory_view, self.caches, self.lineage)
        self.lineage.advance()
        return logits_SWV

    def select(self, parents_SW: Tensor | None = None, sentences: Tensor | None = None) -> None:
        self.lineage.select(parents_SW, sentences)
        if sentences is not None:
            for cache in self.caches:
                cache.select(sentences)
            self.memories = [KeysValues(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.memories]
            self.lengths_S = self.lengths_S[sentences]
            batch, length = self.lengths_S.shape[0], self.memories[0].k_BHMK.shape[2]
            self.memory_view = padding(self.lengths_S).over(1, length, batch=batch, device=self.lengths_S.device)
