"""BERT: an encoder alone, trained to fill in masked words, and what it is fine-tuned for.

Devlin et al. 2019.

    base    12 layers, width  768, 12 heads, feed-forward 3072, 110M parameters
    large   24 layers, width 1024, 16 heads, feed-forward 4096, 340M parameters

Its relatives are choices of the same parts:

    RoBERTa      Liu et al. 2019       segments=1, first_position=2, norm_epsilon=1e-5; trained without next sentences
    CamemBERT    Martin et al. 2020    the same, in French
    DistilBERT   Sanh et al. 2019      layers=6, segments=0, pooler=relu
    ELECTRA      Clark et al. 2020     embedding_width=128 (small), pooler=gelu; asked which tokens were replaced

Differs from the papers in: no dropout inside attention by default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.packing import Words
from regard.data.batching.labelled import SpecialTokens
from regard.families.base import MASKED_WORDS, Family, Heads, Sizes, all_words, first_role, random_ids
from regard.model.embedding import Embed
from regard.model.feedforward import Activation
from regard.model.flops import Part, embedding, learned_positions, linear, norm, stack, vocabulary_head
from regard.model.heads import LinearHead, Pooler, Pooling, ReplacedHead, VocabularyHead, before_words
from regard.model.init import initialise
from regard.model.position import PositionKind, attention_position
from regard.model.stack import BodyConfig, Stack
from regard.model.visibility.parse import parse_visibility
from regard.model.visibility.token_mask import only_words, positions
from regard.text.specials import Roles


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
    segments: int = 2  # sentence A and sentence B; 1 is added to every token alike
    first_position: int = 0  # rows of the table of positions that no token has
    embedding_width: int = 0  # of words; 0: width
    pooler: Pooling = "tanh"  # behind the layer that what is asked of a whole text passes first; or the mean of its tokens
    deviation: float = 0.02  # of matrices as they are drawn; a narrow model learns sooner with more, up to 1 / sqrt(width)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, none in (("segments", "none"), ("first_position", "the first"), ("embedding_width", "model.width")):
            if getattr(self, key) < 0:
                raise UserError(f"model.{key}={getattr(self, key)} must be 0 ({none}) or more.")
        if not 0 < self.deviation < 1:
            raise UserError(f"model.deviation={self.deviation} must be above 0 and below 1, such as 0.02.")
        if self.first_position and self.position != "learned":
            raise UserError(
                f"model.first_position={self.first_position} is for model.position=learned; with {self.position} set it to 0."
            )

    @property
    def words_width(self) -> int:
        return self.embedding_width or self.width


class BERT(nn.Module):
    head: VocabularyHead
    pooler: Pooler
    next_sentence: LinearHead
    classes: LinearHead
    tags: LinearHead
    span: LinearHead
    replaced: ReplacedHead

    def __init__(self, config: BERTConfig, vocabulary: int, seed: int = 0, heads: Heads = MASKED_WORDS) -> None:
        super().__init__()
        c = self.config = config
        self.visibility = parse_visibility(c.visibility)
        self.embed = Embed(
            vocabulary,
            c.words_width,
            position=c.position,
            maximum_length=c.maximum_length,
            dropout=c.dropout,
            scaled=False,
            segments=c.segments,
            norm_epsilon=c.norm_epsilon,
            first_position=c.first_position,
            body_width=c.width,
        )
        self.encoder = Stack(c, c.layers, "encoder", position=attention_position(c, c.layers, causal=False))
        self._add(heads, vocabulary)
        initialise(self, seed, deviation=c.deviation)

    def _add(self, heads: Heads, vocabulary: int) -> None:
        """Only those asked for: a layer that no loss reaches would be carried along untrained."""
        c = self.config
        if heads.words:
            before = before_words(c.width, c.words_width, c.activation, c.norm_epsilon)
            self.head = VocabularyHead(c.words_width, vocabulary, self.embed.tokens, bias=True, before=before)
        if heads.pooled:
            self.pooler = Pooler(c.width, c.pooler)
        if heads.next_sentence:
            self.next_sentence = LinearHead(c.width, 2)
        if heads.classes:
            self.classes = LinearHead(c.width, heads.classes, c.dropout)
        if heads.tags:
            self.tags = LinearHead(c.width, heads.tags, c.dropout)
        if heads.span:
            self.span = LinearHead(c.width, 2)
        if heads.replaced:
            self.replaced = ReplacedHead(c.width, c.activation)

    def forward(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """logits_BLV for every position. `words` says what of the rows are words: lengths_B, or how sequences are packed."""
        return self.head(self.hidden(ids_BL, words, segments_BL))

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each word in its context, x_BLD."""
        batch, length = ids_BL.shape
        pattern, compares = self.visibility & only_words(words), self.config.compares
        view = pattern.over(length, length, batch=batch, device=ids_BL.device, mask=compares)
        return self.encoder(self.embed(ids_BL, positions(words), segments_BL), view)


def count(config: BERTConfig, vocabulary: int, tokens: int, scored: int | None = None, heads: Heads = MASKED_WORDS) -> Part:
    """The model as a tree of parts with the operations of one text; words are asked of `scored` of its tokens, of all if None."""
    c, asked, words = config, tokens if scored is None else scored, config.words_width
    parts = [embedding("embedding", vocabulary, words)]
    if c.position == "learned":
        parts += [learned_positions("positions", c.first_position + c.maximum_length, words)]
    if c.segments:
        parts += [Part("segments", f"{c.segments} x D={words}", "model/embedding.py", c.segments * words)]
    parts += [replace(norm(words), name="embedding norm")]
    if words != c.width:
        parts += [_linear("widen", words, c.width, tokens, "model/embedding.py")]
    parts += [stack("encoder", c, c.layers, tokens)]
    if heads.words:
        parts += [_linear("before the head", c.width, words, asked), norm(words)]
        parts += [vocabulary_head(words, vocabulary, asked, tied=True, bias=True)]
    if heads.pooled and c.pooler != "mean":
        parts += [_linear("pooler", c.width, c.width, 1)]
    outputs = {"next sentence": (2 * heads.next_sentence, 1), "classes": (heads.classes, 1)}
    outputs |= {"tags": (heads.tags, tokens), "span": (2 * heads.span, tokens)}
    parts += [_linear(name, c.width, scores, of) for name, (scores, of) in outputs.items() if scores]
    if heads.replaced:
        parts += [_linear("before replaced", c.width, c.width, tokens), _linear("replaced", c.width, 1, tokens)]
    return Part("bert", f"B,L -> B,L,V={vocabulary:,}", "families/bert.py", children=tuple(parts))


def _linear(name: str, inputs: int, outputs: int, vectors: int, file: str = "model/heads.py") -> Part:
    return Part(name, f"D={inputs} -> {outputs:,}", file, linear(inputs, outputs), 2 * vectors * inputs * outputs)


def text_inputs(config: Any, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor]:
    """Return (ids_BL, lengths_B)."""
    return random_ids(sizes.vocabulary, batch, length), all_words(batch, length)


def bert_marks(config: BERTConfig, roles: Roles) -> SpecialTokens:
    """Return [CLS] and [SEP], or what the vocabulary has in their place; RoBERTa has two separators between two texts."""
    start, end = first_role(roles.cls, roles.sos), first_role(roles.sep, roles.eos)
    return SpecialTokens(start, end, end, twice=config.first_position > 0)  # only RoBERTa's positions begin later


READS = frozenset({"token_vectors", "token_heads", "span_head", "pooled_vector", "tower", "attention", "blocks"})
FAMILY = Family(
    name="bert",
    config=BERTConfig,
    build=lambda config, sizes, seed: BERT(config, sizes.vocabulary, seed, sizes.heads),
    inputs=text_inputs,
    capabilities=READS | {"masked_lm"},
    marks=bert_marks,
)
