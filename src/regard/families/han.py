"""The hierarchical attention network: words make sentences, sentences make a document, and at both levels some matter more.

Yang et al. 2016, sections 2.1 and 2.2:

    words        h_it = GRU both ways (w_it);   s_i = sum of a_it h_it    what matters in a sentence, asked by a learned vector
    sentences    h_i  = GRU both ways (s_i);    v   = sum of a_i h_i      what matters in a document, asked by another

`encoder` chooses what reads: gru as in the paper, lstm, or transformer, blocks with attention of their own in place of the cells.
Behind v comes whatever a text is asked for (`families/classifier.py`). Documents come as rows of tokens with <eos> around their
sentences (`model/hierarchy.py`), so that nothing between the data and here knows of the hierarchy.

Differs from the paper in: words are as wide as all else; dropout stands before each level and before the scores.

Dims: B documents, L tokens of one, S sentences of all, M words of a sentence, N sentences of a document, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.core.config import Count, Fraction, check_bounds
from regard.core.packing import Words
from regard.data.batching.labelled import SpecialTokens
from regard.families.base import CellConfig, Family, Sizes
from regard.families.bert import text_inputs
from regard.model.block import BlockConfig
from regard.model.embedding import Embed
from regard.model.hierarchy import Encoder, Level, Nested, blocks_of
from regard.model.init import initialise
from regard.model.pooling import LearnedQuery
from regard.model.probe import taken_apart
from regard.text.specials import EOS


@dataclass(frozen=True, kw_only=True)
class HANConfig(CellConfig):
    family: Literal["han"] = "han"
    encoder: Encoder = "gru"
    width: Count = 100
    layers: Count = 1  # at each level
    heads: int = 0  # of transformer; 0: 4
    feedforward: int = 0  # of transformer; 0: four widths
    dropout: Fraction = 0.1

    segments = 0

    def __post_init__(self) -> None:
        check_bounds(self, "model.")
        _ = self.blocks  # which are refused where they make no sense

    @property
    def blocks(self) -> BlockConfig:
        return blocks_of(self.encoder, self.width, self.heads, self.feedforward, self.dropout)

    @property
    def cell(self) -> str:  # type: ignore[override]
        return self.encoder

    @property
    def attends(self) -> str:
        return "a learned query to the words of each sentence, another to the sentences; mixer dot"

    @property
    def depth(self) -> tuple[int, int]:  # type: ignore[override]
        return 2 * self.layers, 0


class HAN(nn.Module):
    def __init__(self, config: HANConfig, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        self.embed = Embed(vocabulary, c.width, position="none", maximum_length=1, dropout=c.dropout)
        self.words = Level(c.encoder, c.blocks, c.layers, "words")
        self.of_words = LearnedQuery(c.width, name="words.query")
        self.dropout = nn.Dropout(c.dropout)
        self.sentences = Level(c.encoder, c.blocks, c.layers, "sentences")
        self.of_sentences = LearnedQuery(c.width, name="sentences.query")
        initialise(self, seed)

    def forward(self, ids_BL: Tensor, lengths_B: Tensor) -> Tensor:
        """x_BD: a vector for each document."""
        found, x_BLD = Nested.of(ids_BL, lengths_B), self.embed(ids_BL)
        with taken_apart(self.of_words.probe, found.sentences_B):
            h_SMD = self.words(found.apart(x_BLD), found.words_S, found.lengths)
            x_SD = self.of_words(h_SMD, found.words_S)
        x_BND = found.documents(self.dropout(x_SD))
        h_BND = self.sentences(x_BND, found.sentences_B)
        return self.of_sentences(h_BND, found.sentences_B)

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """x_B1D: the document in the place of its words, for whoever asks a body for the vectors of a text."""
        if not isinstance(words, Tensor):
            raise TypeError("a hierarchy reads documents side by side, so they are padded for it, not packed end to end")
        return self(ids_BL, words)[:, None]

    def pooler(self, x_B1D: Tensor, words: Words) -> Tensor:
        """There is nothing left to pool."""
        return x_B1D[:, 0]


def _inputs(config: HANConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor]:
    """Return (ids_BL, lengths_B) of documents with sentences of four words."""
    ids_BL, lengths_B = text_inputs(config, sizes, batch, length, source)
    ids_BL[:, 4::5] = EOS
    return ids_BL, lengths_B


FAMILY = Family(
    name="han",
    config=HANConfig,
    build=lambda config, sizes, seed: HAN(config, sizes.vocabulary, seed),
    inputs=_inputs,
    capabilities=frozenset({"pooled_vector", "nested_documents", "attention"}),
    marks=lambda config, roles: SpecialTokens(EOS, EOS, EOS, sentences=True),
)
