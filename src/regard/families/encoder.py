"""The encoder of a Transformer alone: it reads symbols of any kind, many of them, and says what they are together.

Tay et al. 2021, Long Range Arena, section 3.1: the same plain encoder for pixels, bytes and symbols, with one kind of attention
after the other in it. Norms come first, positions are sinusoidal, and those of pixels say row and column where `columns` is set;
what a layer and the scores behind it are asked of is the first token of a text, or the mean of all. Two texts are read as one, or
each by itself and compared.

    ListOps      4 layers, width 512, 8 heads, feed-forward 1024      Pixels       1 layer, width 128, 8 heads, feed-forward 128
    Text         4 layers, width 256, 4 heads, feed-forward 1024      Pathfinder   4 layers, width 32, 4 heads, feed-forward 32
    Retrieval    4 layers, width 128, 4 heads, feed-forward 512       Path-X       1 layer, width 32, 2 heads, feed-forward 32

Differs from the paper's code in: heads fill the width (its Pixels and Pathfinder have half of that); the layer before the scores
is as wide as the body; texts end with a mark as they begin with one; what is masked is filled in by words tied to those read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.core.config import Count
from regard.core.errors import UserError
from regard.core.packing import Words
from regard.data.batching.labelled import SpecialTokens
from regard.families.base import MASKED_WORDS, Family, Heads, Sizes, first_role, head_outputs
from regard.families.bert import text_inputs
from regard.model.block import BodyConfig, Stack
from regard.model.embedding import Embed, VocabularyHead
from regard.model.init import initialise
from regard.model.layers import Activation
from regard.model.pooling import Pooled, PooledNorm, Summary
from regard.model.position import attention_position
from regard.model.visibility import only_words, positions
from regard.model.visibility.parse import parse_visibility
from regard.text.specials import Roles


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(BodyConfig):
    family: Literal["encoder"] = "encoder"
    layers: Count = 4
    feedforward: Count = 1024
    activation: Activation = "gelu"
    norm_placement: Literal["pre", "post"] = "pre"
    maximum_length: Count = 2048
    pooling: Pooled = "first"  # which vector stands for a text
    pooled_norm: PooledNorm = "none"  # over the batch: helps where most of every text is the same
    pairs: Literal["joined", "apart"] = "joined"  # two texts are read as one, or each by itself, by the same body
    columns: int = 0  # of the image whose pixels are read; 0: positions are those of a text
    segments = 0  # two texts are separated by marks alone

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns < 0:
            raise UserError(f"model.columns={self.columns} must be those of an image, such as 32, or 0 for a text.")
        if self.columns and self.position != "sinusoidal":
            raise UserError(f"model.columns={self.columns} is for model.position=sinusoidal; with {self.position} set it to 0.")
        if self.columns and self.width % 4:
            raise UserError(
                f"model.width={self.width} does not divide by 4, which sines and cosines of rows and columns need; "
                f"take {-(-self.width // 4) * 4}, or set model.columns=0."
            )


class Encoder(nn.Module):
    """Heads are named as BERT's are."""

    head: VocabularyHead
    pooler: Summary

    def __init__(self, config: EncoderConfig, vocabulary: int, seed: int = 0, heads: Heads = MASKED_WORDS) -> None:
        super().__init__()
        c = self.config = config
        self.visibility = parse_visibility(c.visibility)
        self.embed = Embed(
            vocabulary, c.width, position=c.position, maximum_length=c.maximum_length, dropout=c.dropout, columns=c.columns
        )
        self.encoder = Stack(c, c.layers, "encoder", position=attention_position(c, c.layers, causal=False))
        if heads.words:
            self.head = VocabularyHead(c.width, vocabulary, self.embed.tokens, bias=True)
        if heads.pooled:
            self.pooler = Summary(c.width, c.pooling, c.pairs == "apart", c.pooled_norm)
        initialise(self, seed)

    def forward(self, ids_BL: Tensor, words: Words) -> Tensor:
        """logits_BLV for every position. `words` says what of the rows are words: lengths_B, or how sequences are packed."""
        return self.head(self.hidden(ids_BL, words))

    def outputs(self, ids_BL: Tensor, words: Tensor, scored: int | None = None) -> dict[str, Tensor]:
        """Return what every head makes of texts."""
        return head_outputs(self, self.hidden(ids_BL, words), words, scored)

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each symbol in its context, x_BLD; to segments it is blind."""
        batch, length = ids_BL.shape
        pattern, compares = self.visibility & only_words(words), self.config.compares
        view = pattern.over(length, length, batch=batch, device=ids_BL.device, mask=compares)
        return self.encoder(self.embed(ids_BL, positions(words)), view)


def _inputs(config: EncoderConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor]:
    """Return (ids_BL, lengths_B); of pairs that are read apart, two rows a pair with half of the tokens each."""
    apart = config.pairs == "apart"
    return text_inputs(config, sizes, 2 * batch if apart else batch, length // 2 if apart else length, source)


def _marks(config: EncoderConfig, roles: Roles) -> SpecialTokens:
    start, end = first_role(roles.sos, roles.cls), first_role(roles.eos, roles.sep)
    return SpecialTokens(start, end, end, apart=config.pairs == "apart")


FAMILY = Family(
    name="encoder",
    config=EncoderConfig,
    build=lambda config, sizes, seed: Encoder(config, sizes.vocabulary, seed, sizes.heads),
    inputs=_inputs,
    capabilities=frozenset({"masked_lm", "token_vectors", "pooled_vector", "tower", "attention", "blocks"}),
    marks=_marks,
)
