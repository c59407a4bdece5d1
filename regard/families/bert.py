"""BERT: an encoder alone, trained to fill in masked words.

Devlin et al. 2019.

    base    12 layers, width  768, 12 heads, feed-forward 3072, 110M parameters
    large   24 layers, width 1024, 16 heads, feed-forward 4096, 340M parameters

Here is the body with the head for masked words; what BERT is fine-tuned for comes with its own heads. Differs from the paper in:
no dropout inside attention by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.data.packing import Words
from regard.errors import UserError
from regard.model.count import Part, embedding, learned_positions, linear, norm, stack, vocabulary_head
from regard.model.embed import Embed
from regard.model.feedforward import Activation
from regard.model.heads import VocabularyHead
from regard.model.init import initialise
from regard.model.linear import Linear
from regard.model.norm import Norm
from regard.model.pattern import parse_visibility
from regard.model.position import PositionKind
from regard.model.stack import BodyConfig, Stack
from regard.model.words import only_words, positions


@dataclass(frozen=True, kw_only=True)
class BERTConfig(BodyConfig):
    family: Literal["bert"] = "bert"
    width: int = 768
    heads: int = 12
    layers: int = 12
    feedforward: int = 3072
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    position: PositionKind = "learned"
    maximum_length: int = 512
    segments: int = 2  # sentence A and sentence B

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segments < 0:
            raise UserError(f"model.segments={self.segments} must be 0 (none) or more.")


class BERT(nn.Module):
    def __init__(self, config: BERTConfig, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        self.visibility = parse_visibility(c.visibility)
        self.embed = Embed(
            vocabulary,
            c.width,
            position=c.position,
            maximum_length=c.maximum_length,
            dropout=c.dropout,
            scaled=False,
            segments=c.segments,
            norm_epsilon=c.norm_epsilon,
        )
        self.encoder = Stack(c, c.layers, "encoder")
        before = nn.Sequential(Linear(c.width, c.width), nn.GELU(), Norm(c.width, eps=c.norm_epsilon))
        self.head = VocabularyHead(c.width, vocabulary, self.embed.tokens, bias=True, before=before)
        initialise(self, seed, deviation=0.02)

    def forward(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """logits_BLV for every position. `words` says what of the rows are words: lengths_B, or how sequences are packed."""
        return self.head(self.hidden(ids_BL, words, segments_BL))

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each word in its context, x_BLD."""
        batch, length = ids_BL.shape
        view = (self.visibility & only_words(words)).over(length, length, batch=batch, device=ids_BL.device)
        return self.encoder(self.embed(ids_BL, positions(words), segments_BL), view)


def count(config: BERTConfig, vocabulary: int, tokens: int, scored: int | None = None) -> Part:
    """The model as a tree of parts with the operations of one text; only `scored` of its tokens are asked for, all if None."""
    c, asked = config, tokens if scored is None else scored
    parts = [embedding("embedding", vocabulary, c.width)]
    if c.position == "learned":
        parts += [learned_positions("positions", c.maximum_length, c.width)]
    if c.segments:
        parts += [Part("segments", f"{c.segments} x D={c.width}", "model/embed.py", c.segments * c.width)]
    parts += [norm(c.width), stack("encoder", c, c.layers, tokens)]
    before = Part("before the head", f"D={c.width}", "model/heads.py", linear(c.width, c.width), 2 * asked * c.width * c.width)
    parts += [before, norm(c.width), vocabulary_head(c.width, vocabulary, asked, tied=True, bias=True)]
    return Part("bert", f"B,L -> B,L,V={vocabulary:,}", "families/bert.py", children=tuple(parts))
