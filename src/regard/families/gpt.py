"""GPT: a decoder alone, trained to continue text.

Radford et al. 2018 and 2019; Brown et al. 2020. GPT-1 normalises after each sublayer, GPT-2 and GPT-3 before.

    GPT-2   12 layers, width  768, 12 heads, 124M parameters;  24, 1024, 16, 355M;  36, 1280, 20, 774M;  48, 1600, 25, 1.56B

Visibility is laid over causal. Differs from the papers in: no dropout inside attention by default, and all layers see alike
(every other layer of GPT-3 is sparse).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.config import Count, Fraction
from regard.core.packing import Packing, Pieces, Segment
from regard.families.base import Family, Sizes, random_ids
from regard.model.block import BodyConfig, Stack
from regard.model.embedding import Embed, VocabularyHead
from regard.model.init import initialise
from regard.model.kernels import decode_step as kernels
from regard.model.layers import Activation
from regard.model.memory.segments import SegmentMemory
from regard.model.memory.settings import MemorySettings, check_memory
from regard.model.position import attention_position
from regard.model.state.decoder import DecoderState, EncodedPrompt
from regard.model.state.kv_cache import Prompt
from regard.model.visibility import causal, full, only_words, positions
from regard.model.visibility.parse import parse_visibility


@dataclass(frozen=True, kw_only=True)
class GPTConfig(BodyConfig, MemorySettings):
    family: Literal["gpt"] = "gpt"
    width: Count = 768
    heads: Count = 12
    layers: Count = 12
    feedforward: Count = 3072
    activation: Activation = "gelu_tanh"
    norm_placement: Literal["pre", "post"] = "pre"
    position: str = "learned"
    word_dropout: Fraction = 0.0  # of whole words at the input, for little text
    output_dropout: Fraction = 0.0  # of the vectors that the next token is read from
    tie: Literal["output", "none"] = "output"  # one matrix for the embedding and the output; one each

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self)

    @property
    def depth(self) -> tuple[int, int]:
        return 0, self.layers

    @property
    def attentions(self) -> list[str]:
        return [f"decoder.{n}.self" for n in range(self.layers)]


class GPT(nn.Module):
    def __init__(self, config: GPTConfig, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        self.segment_memory = SegmentMemory.of(c)
        self.visibility = causal & parse_visibility(c.visibility) if self.segment_memory is None else self.segment_memory.pattern
        self.embed = Embed(
            vocabulary,
            c.width,
            position=c.position,
            maximum_length=c.maximum_length,
            dropout=c.dropout,
            scaled=False,
            word_dropout=c.word_dropout,
        )
        self.decoder = Stack(c, c.layers, "decoder", position=attention_position(c, c.layers, causal=True))
        self.output_dropout = nn.Dropout(c.output_dropout)
        self.head = VocabularyHead(c.width, vocabulary, None if c.tie == "none" else self.embed.tokens)
        initialise(self, seed, deviation=0.02, residual_layers=2 * c.layers)

    def forward(self, ids_BL: Tensor, documents: Packing | Pieces | Segment | None = None) -> Tensor:
        """logits_BLV; position l has seen 0..l, of its own document where several are packed, and what a memory keeps."""
        return self.head(self.hidden(ids_BL, documents))

    def hidden(self, ids_BL: Tensor, documents: Packing | Pieces | Segment | None = None) -> Tensor:
        """The vectors x_BLD that `forward` asks the head about."""
        length = ids_BL.shape[1]
        if self.segment_memory is not None and (self.segment_memory.zeros or isinstance(documents, Segment)):
            return self.output_dropout(self.segment_memory.decode(self.decoder, self.embed(ids_BL), documents))
        assert not isinstance(documents, Segment), "a model without a memory has no earlier segment"
        pattern = self.visibility & (full if documents is None else only_words(documents))
        view = pattern.over(length, length, batch=len(ids_BL), device=ids_BL.device, mask=self.config.compares)
        return self.output_dropout(self.decoder(self.embed(ids_BL, positions(documents)), view))

    @torch.no_grad()
    def start(self, prompt_BL: Tensor, lengths_B: Tensor) -> EncodedPrompt:
        """Reads prompts, padded at the right, in one pass. The word that writing starts from is not among them."""
        if (memory := self.segment_memory) is not None:
            kept = memory.encode(self.decoder, self.embed(prompt_BL))
            return EncodedPrompt(self, self.embed, kept, lengths_B + memory.length * memory.zeros)
        caches = [Prompt() for _ in self.decoder.blocks]
        length = prompt_BL.shape[1]
        view = self.visibility.over(length, length, device=prompt_BL.device)  # causal, so no word sees the padding behind it
        self.decoder(self.embed(prompt_BL), view, caches=caches)
        return EncodedPrompt(self, self.embed, [cache.parts for cache in caches], lengths_B)

    def step(self, ids_SW: Tensor, past: DecoderState) -> Tensor:
        """logits_SWV after one more token in every lane: the sums of `forward`, with all before it taken from the past."""
        x_SWD = self.embed(ids_SW, past.positions_SW)
        return kernels.logits(self.decoder, self.head, x_SWD, past.view(self.visibility), None, None, past.caches)


def _inputs(config: GPTConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor]:
    """Return (ids_BL,)."""
    return (random_ids(sizes.vocabulary, batch, length),)


FAMILY = Family(
    name="gpt",
    config=GPTConfig,
    build=lambda config, sizes, seed: GPT(config, sizes.vocabulary, seed),
    inputs=_inputs,
    capabilities=frozenset({"causal_lm", "pooled_vector", "attention", "blocks"}),
)
