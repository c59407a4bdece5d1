"""ELECTRA: two BERTs. A small one fills in masked words; the other says of every token whether it was there from the start.

Clark et al. 2020. After training the generator is left behind; the discriminator is what is fine-tuned.

    small   12 layers, width  256,  4 heads, words of 128,  14M parameters; generator of width  64
    base    12 layers, width  768, 12 heads, words of 768, 110M parameters; generator of width 256
    large   24 layers, width 1024, 16 heads, words of 1024, 335M parameters; generator of width 256

Both read the same embeddings (section 3.2), each through a projection of its own where it is not as wide. As in the paper's code,
a generator's heads are as wide as the discriminator's, its feed-forward is narrower by as much as it is, and segments and the
norm of the embedding are shared with words and positions.

Differs from the paper in: no dropout inside attention by default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.packing import Words
from regard.families.base import MASKED_WORDS, Family, Heads
from regard.families.bert import BERT, BERTConfig, bert_marks, text_inputs
from regard.families.bert import count as count_bert
from regard.model.flops import Part
from regard.model.heads import Pooling, ReplacedHead

REPLACED = Heads(words=False, replaced=True)
SHARED = ("embedding", "positions", "segments", "embedding norm")  # parts of the count


@dataclass(frozen=True, kw_only=True)
class ELECTRAConfig(BERTConfig):
    """The discriminator's settings, and by what the generator differs."""

    family: Literal["electra"] = "electra"  # type: ignore[assignment]
    pooler: Pooling = "gelu"
    generator_width: int = 256
    tie_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        head, width = self.width // self.heads, self.generator_width
        if width < 1 or (width > head and width % head):
            raise UserError(
                f"model.generator_width={width} must be a multiple of {head}, the width of a head (model.width / model.heads), "
                "or at least 1 and less than it, which is one narrower head."
            )

    @property
    def discriminator(self) -> BERTConfig:
        return BERTConfig(**{field.name: getattr(self, field.name) for field in fields(BERTConfig) if field.name != "family"})

    @property
    def generator(self) -> BERTConfig:
        width = self.generator_width
        return replace(
            self.discriminator,
            width=width,
            heads=max(1, width * self.heads // self.width),
            feedforward=max(1, self.feedforward * width // self.width),
            embedding_width=self.words_width,
            pruned=(),
        )


class ELECTRA(nn.Module):
    """`generator` is a BERT for masked words; the rest is the discriminator's."""

    def __init__(self, config: ELECTRAConfig, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.discriminator = BERT(config.discriminator, vocabulary, seed, REPLACED)
        self.generator = BERT(config.generator, vocabulary, seed + 1, MASKED_WORDS)
        if config.tie_embeddings:
            own, shared = self.generator.embed, self.discriminator.embed
            own.tokens, own.positions, own.segments, own.norm = shared.tokens, shared.positions, shared.segments, shared.norm
            self.generator.head.project.weight = shared.tokens.weight

    @property
    def head(self) -> ReplacedHead:
        return self.discriminator.replaced

    def forward(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """logits_BL that each token was replaced. `words` says what of the rows are words."""
        return self.head(self.hidden(ids_BL, words, segments_BL))

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each token in its context, x_BLD, as the discriminator sees it."""
        return self.discriminator.hidden(ids_BL, words, segments_BL)


def count(config: ELECTRAConfig, vocabulary: int, tokens: int, scored: int | None = None) -> Part:
    """Both networks as a tree of parts with the operations of one text, of whose tokens `scored` are masked, all if None."""
    discriminator = replace(count_bert(config.discriminator, vocabulary, tokens, heads=REPLACED), name="discriminator")
    generator = replace(count_bert(config.generator, vocabulary, tokens, scored), name="generator")
    if config.tie_embeddings:
        generator = replace(generator, children=tuple(map(_shared, generator.children)))
    return Part("electra", f"B,L -> B,L of V={vocabulary:,}", "families/electra.py", children=(generator, discriminator))


def _shared(part: Part) -> Part:
    """Counted once, with the discriminator's."""
    return replace(part, own_parameters=0, shape=f"{part.shape} (shared)") if part.name in SHARED else part


FAMILY = Family(
    name="electra",
    config=ELECTRAConfig,
    build=lambda config, sizes, seed: ELECTRA(config, sizes.vocabulary, seed),
    inputs=text_inputs,
    capabilities=frozenset({"replaced_token", "token_vectors", "attention", "blocks"}),
    marks=bert_marks,
)
