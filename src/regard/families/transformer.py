"""The Transformer: an encoder, a decoder that looks back at it, a softmax over words.

Vaswani et al. 2017, "Attention is all you need", section 3.

    base   6 + 6 layers, width  512,  8 heads, feed-forward 2048, dropout 0.1,  65M parameters
    big    6 + 6 layers, width 1024, 16 heads, feed-forward 4096, dropout 0.3, 213M parameters

Visibility is laid over causal in the decoder and over padding in the encoder. Differs from the paper in nothing by default;
pre-norm, GELU, learned or concatenated positions and windows are choices of parts, and so are T5, BART and Marian: each is this
model with other defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.core.config import Bounds, Fraction
from regard.core.errors import UserError
from regard.core.packing import Packing, Words
from regard.families.base import Family, Sizes, all_words, random_ids
from regard.model.block import BodyConfig, Stack
from regard.model.embedding import Embed, Join, Scale, VocabularyHead
from regard.model.init import initialise
from regard.model.kernels import decode_step as kernels
from regard.model.position import attention_position
from regard.model.state.decoder import DecoderState, EncodedPrompt
from regard.model.visibility import causal, full, only_words, positions
from regard.model.visibility.parse import parse_visibility

Layers = Annotated[int, Bounds(0, zero="as model.layers")]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BodyConfig):
    family: Literal["transformer"] = "transformer"
    encoder_layers: Layers = 0  # as `layers` where 0
    decoder_layers: Layers = 0
    join: Join = "add"
    position_width: int = 0  # of the width, with join = "concat"
    tie: Literal["all", "inputs", "output", "none"] = "all"  # one matrix for all; for source and target; target and output; none
    scaled_embeddings: bool = True  # by the root of the width
    embedding_norm: bool = False  # of tokens and positions together (BART)
    first_position: int = 0  # rows of the table of learned positions before the first (BART: 2)
    scaled_head: bool = False  # what the output layer reads is divided by the root of the width (T5)
    head_bias: bool = False  # of the output layer (BART, Marian)
    stack_dropout: Fraction = 0.0  # of what each stack gives (T5)

    def __post_init__(self) -> None:
        super().__post_init__()
        concat = self.join == "concat"
        if concat and not 0 < self.position_width < self.width:
            raise UserError(
                f"model.join=concat needs model.position_width between 1 and {self.width - 1} (of the width {self.width}); "
                f"it is {self.position_width}."
            )
        if concat and self.position not in ("sinusoidal", "sinusoidal-halves", "learned"):
            raise UserError(
                f"model.join=concat has nothing to join with model.position={self.position}; choose sinusoidal or learned."
            )
        if not concat and self.position_width:
            raise UserError(
                f"model.position_width={self.position_width} needs model.join=concat; added positions have the whole width."
            )
        if concat and self.tie not in ("inputs", "none"):
            raise UserError("model.join=concat makes embeddings narrower than the output layer; add model.tie=none.")
        if self.first_position < 0 or (self.first_position and self.position != "learned"):
            raise UserError(
                f"model.first_position={self.first_position} counts rows of model.position=learned, 0 or more; with "
                f"model.position={self.position} leave it out."
            )

    @property
    def depth(self) -> tuple[int, int]:
        return self.encoder_layers or self.layers, self.decoder_layers or self.layers

    @property
    def attentions(self) -> list[str]:
        encoder_layers, decoder_layers = self.depth
        written = [f"decoder.{n}.{kind}" for n in range(decoder_layers) for kind in ("self", "cross")]
        return [f"encoder.{n}.self" for n in range(encoder_layers)] + written


class Transformer(nn.Module):
    def __init__(self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.visibility = parse_visibility(config.visibility)
        encoder_layers, decoder_layers = config.depth
        self.source = self._embed(source_vocabulary)
        self.target = self._embed(target_vocabulary)
        if config.tie in ("all", "inputs"):
            self.target.tokens = self.source.tokens
        self.encoder = Stack(config, encoder_layers, "encoder", position=attention_position(config, encoder_layers, causal=False))
        written = attention_position(config, decoder_layers, causal=True)
        self.decoder = Stack(config, decoder_layers, "decoder", cross=True, position=written)
        self.stack_dropout = nn.Dropout(config.stack_dropout)
        tied = self.target.tokens if config.tie in ("all", "output") else None
        before = Scale(config.width**-0.5) if config.scaled_head else None
        self.head = VocabularyHead(config.width, target_vocabulary, tied, config.head_bias, before)
        initialise(self, seed)
        if not config.scaled_embeddings and (config.scaled_head or config.tie in ("inputs", "none")):
            with torch.no_grad():  # no factor will give them unit variance, so they start with it (T5)
                for tokens in {id(part.tokens): part.tokens for part in (self.source, self.target)}.values():
                    tokens.weight.mul_(tokens.embedding_dim**0.5)

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
            scaled=c.scaled_embeddings,
            norm_epsilon=c.norm_epsilon if c.embedding_norm else 0.0,
            first_position=c.first_position,
        )

    def forward(self, source_BM: Tensor, source: Words, target_BL: Tensor, target: Packing | None = None) -> Tensor:
        """logits_BLV for every target position at once; position l has seen targets 0..l (teacher forcing).

        `source` says what of source_BM are words: lengths_B of padded rows, or how sequences are packed; then `target` does too.
        """
        return self.head(self.hidden(source_BM, source, target_BL, target))

    def hidden(self, source_BM: Tensor, source: Words, target_BL: Tensor, target: Packing | None = None) -> Tensor:
        """The vectors x_BLD that `forward` asks the head about."""
        (batch, memory), length, device = source_BM.shape, target_BL.shape[1], target_BL.device
        memory_BMD = self.encode(source_BM, source)
        pattern = causal & self.visibility & (full if target is None else only_words(target))
        view = pattern.over(length, length, device=device)
        memory_view = only_words(source, target).over(length, memory, batch=batch, device=device)
        x_BLD = self.decoder(self.target(target_BL, positions(target)), view, self.decoder.project_kv(memory_BMD), memory_view)
        return self.stack_dropout(x_BLD)

    def encode(self, source_BM: Tensor, source: Words) -> Tensor:
        batch, length = source_BM.shape
        view = (self.visibility & only_words(source)).over(length, length, batch=batch, device=source_BM.device)
        return self.stack_dropout(self.encoder(self.source(source_BM, positions(source)), view))

    @torch.no_grad()
    def start(self, source_BM: Tensor, lengths_B: Tensor) -> EncodedPrompt:
        memories = self.decoder.project_kv(self.encode(source_BM, lengths_B))
        no_prompt = [block.self_attention.empty_kv(memory) for block, memory in zip(self.decoder.blocks, memories)]
        return EncodedPrompt(self, self.target, no_prompt, torch.zeros_like(lengths_B), memories, lengths_B)

    def step(self, ids_SW: Tensor, past: DecoderState) -> Tensor:
        """logits_SWV after one more token in every lane: the sums of `forward`, with all before it taken from the past."""
        x_SWD = self.target(ids_SW, past.positions_SW)
        view = past.view(self.visibility)
        return kernels.logits(self.decoder, self.head, x_SWD, view, past.memories, past.memory_view, past.caches)


def pair_inputs(config: TransformerConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (source_BM, lengths_B, target_BL)."""
    return random_ids(sizes.vocabulary, batch, source), all_words(batch, source), random_ids(sizes.written, batch, length)


FAMILY = Family(
    name="transformer",
    config=TransformerConfig,
    build=lambda config, sizes, seed: Transformer(config, sizes.vocabulary, sizes.written, seed),
    inputs=pair_inputs,
    capabilities=frozenset({"seq2seq", "attention", "blocks"}),
)
