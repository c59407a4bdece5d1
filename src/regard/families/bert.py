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

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from torch import Tensor, nn

from regard.core.config import Bounds, Count
from regard.core.errors import UserError
from regard.core.packing import Words
from regard.data.batching.labelled import SpecialTokens
from regard.families.base import MASKED_WORDS, Family, Heads, Sizes, all_words, first_role, head_outputs, random_ids
from regard.model.block import BodyConfig, NormEpsilon, Stack
from regard.model.embedding import Embed, VocabularyHead
from regard.model.heads import LinearHead, Pooler, Pooling, ReplacedHead, before_words
from regard.model.init import initialise
from regard.model.layers import Activation
from regard.model.position import attention_position
from regard.model.visibility import only_words, positions
from regard.model.visibility.parse import parse_visibility
from regard.text.specials import Roles


@dataclass(frozen=True, kw_only=True)
class BERTConfig(BodyConfig):
    family: Literal["bert"] = "bert"
    width: Count = 768
    heads: Count = 12
    layers: Count = 12
    feedforward: Count = 3072
    activation: Activation = "gelu"
    norm_epsilon: NormEpsilon = 1e-12
    position: str = "learned"
    maximum_length: Count = 512
    segments: Annotated[int, Bounds(0, zero="none")] = 2  # sentence A and sentence B; 1 is added to every token alike
    first_position: Annotated[int, Bounds(0, zero="the first")] = 0  # rows of the table of positions that no token has
    embedding_width: Annotated[int, Bounds(0, zero="model.width")] = 0  # of words
    pooler: Pooling = "tanh"  # behind the layer that what is asked of a whole text passes first; or the mean of its tokens
    deviation: float = 0.02  # of matrices as they are drawn; a narrow model learns sooner with more, up to 1 / sqrt(width)

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def outputs(self, ids_BL: Tensor, words: Tensor, scored: int | None = None) -> dict[str, Tensor]:
        """Return what every head makes of texts."""
        return head_outputs(self, self.hidden(ids_BL, words), words, scored)

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each word in its context, x_BLD."""
        batch, length = ids_BL.shape
        pattern, compares = self.visibility & only_words(words), self.config.compares
        view = pattern.over(length, length, batch=batch, device=ids_BL.device, mask=compares)
        return self.encoder(self.embed(ids_BL, positions(words), segments_BL), view)


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
