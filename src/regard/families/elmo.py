"""ELMo: one language model reads ahead, another reads back, and a word's vector is what both knew when they met it.

Peters et al. 2018, Deep contextualized word representations, section 3. Two LSTMs share the words they read and the words they
score; each layer is added to the one below it, from the second on. A word's vector in layer j is both ways' vectors side by side,
and the word itself twice in layer 0; a task takes a weighted sum of the layers (`model/pooling.py`).

    original    2 layers of 4096 cells projected to 512 each way, width 1024, words from 2048 character n-grams; 94M parameters

Differs from the paper in: words are pieces of a vocabulary, not characters under a convolution; cells are as wide as what they
hand on, without a projection; the words that are scored are those that are read (tied); running text is read in windows.

Dims: E half of the width D, N layers and the words below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.config import Count, Fraction, check_bounds
from regard.core.errors import UserError
from regard.core.packing import Words
from regard.data.batching.labelled import SpecialTokens
from regard.families.base import MASKED_WORDS, CellConfig, Family, Heads, first_role, head_outputs
from regard.families.bert import text_inputs
from regard.model.embedding import Embed, VocabularyHead
from regard.model.heads import LinearHead, Pooler
from regard.model.init import initialise
from regard.model.pooling import LayerSum
from regard.model.recurrent.cells import at_places, read, turned_places
from regard.text.specials import Roles


@dataclass(frozen=True, kw_only=True)
class ELMoConfig(CellConfig):
    family: Literal["elmo"] = "elmo"
    width: int = 1024  # of a word's vector: half of it from each way
    layers: Count = 2
    dropout: Fraction = 0.1

    maximum_length = 128  # tokens of a window to train on, where data.window says nothing; whoever reads later reads on
    segments = 0
    cell = "lstm"

    def __post_init__(self) -> None:
        if self.width < 2 or self.width % 2:
            raise UserError(f"model.width={self.width} cannot be halved between two ways of reading; give an even number.")
        check_bounds(self, "model.")

    @property
    def depth(self) -> tuple[int, int]:  # type: ignore[override]
        return self.layers, 0


class Ways(NamedTuple):
    """Logits by the forward network and by the backward network."""

    ahead: Tensor
    back: Tensor


class ELMo(nn.Module):
    """Heads are named as BERT's are; that for words scores the next word of one way and the previous one of the other."""

    head: VocabularyHead
    sum: LayerSum
    pooler: Pooler
    tags: LinearHead

    def __init__(self, config: ELMoConfig, vocabulary: int, seed: int = 0, heads: Heads = MASKED_WORDS) -> None:
        super().__init__()
        c, half = config, config.width // 2
        self.config = config
        self.embed = Embed(vocabulary, half, position="none", maximum_length=1, dropout=c.dropout)
        self.ahead, self.back = _way(half, c.layers), _way(half, c.layers)
        self.dropout = nn.Dropout(c.dropout)
        if heads.words:
            self.head = VocabularyHead(half, vocabulary, self.embed.tokens, bias=True)
        else:
            self.sum = LayerSum(c.layers + 1)  # which only a task teaches
        if heads.pooled:
            self.pooler = Pooler(c.width, "mean")
        if heads.tags:
            self.tags = LinearHead(c.width, heads.tags, c.dropout)
        initialise(self, seed)

    def forward(self, ids_BL: Tensor, words: Words) -> Ways:
        """logits_BLV of the word after each, by the way ahead, and of the word before each, by the way back."""
        lengths_B = _lengths(words)
        return Ways(self.head(self.read_ahead(ids_BL)[-1]), self.head(self.read_back(ids_BL, lengths_B)[-1]))

    def outputs(self, ids_BL: Tensor, words: Tensor, scored: int | None = None) -> dict[str, Tensor]:
        """Return what every head makes of texts; `scored` is for others, as all tokens are scored by both networks."""
        if hasattr(self, "head"):
            return self(ids_BL, words)._asdict()
        return head_outputs(self, self.hidden(ids_BL, words), words)

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each word in its context, x_BLD: the weighted sum of all layers; to segments it is blind."""
        return self.sum(torch.stack(self.layers(ids_BL, words)))

    def layers(self, ids_BL: Tensor, words: Words) -> list[Tensor]:
        """N times x_BLD: the words themselves, then what each layer makes of them, both ways side by side."""
        ahead, back = self.read_ahead(ids_BL), self.read_back(ids_BL, _lengths(words))
        return [torch.cat(both, -1) for both in zip(ahead, back)]

    def read_ahead(self, ids_BL: Tensor) -> list[Tensor]:
        """Return x_BLE of every layer of the forward network, the embedding first."""
        return self.carried(self.ahead, ids_BL)

    def read_back(self, ids_BL: Tensor, lengths_B: Tensor) -> list[Tensor]:
        """Return x_BLE of every layer of the backward network, which reads from the end of each text."""
        places_BL = turned_places(lengths_B, ids_BL.shape[1])
        return [at_places(x_BLE, places_BL) for x_BLE in self.carried(self.back, ids_BL.gather(1, places_BL))]

    def carried(self, way: Sequence[nn.LSTM], ids_BL: Tensor) -> list[Tensor]:
        """x_BLE of every layer of one way, in the order that it reads in."""
        found = [x_BLE := self.embed(ids_BL)]
        for n, layer in enumerate(way):
            h_BLE = self.dropout(read(layer, x_BLE))
            x_BLE = h_BLE + x_BLE if n else h_BLE
            found.append(x_BLE)
        return found


def _way(half: int, layers: int) -> Sequence[nn.LSTM]:
    return nn.ModuleList(nn.LSTM(half, half, batch_first=True) for _ in range(layers))  # type: ignore[return-value]


def _lengths(words: Words) -> Tensor:
    if not isinstance(words, Tensor):
        raise TypeError("a recurrent network reads texts side by side, so they are padded for it, not packed end to end")
    return words


def _marks(config: ELMoConfig, roles: Roles) -> SpecialTokens:
    """Return the one mark between texts where an ELMo is trained, before and after a text."""
    end = first_role(roles.eos, roles.sos, roles.unk)
    return SpecialTokens(end, end, end)


FAMILY = Family(
    name="elmo",
    config=ELMoConfig,
    build=lambda config, sizes, seed: ELMo(config, sizes.vocabulary, seed, sizes.heads),
    inputs=text_inputs,
    capabilities=frozenset({"bidirectional_lm", "token_vectors", "token_heads", "pooled_vector"}),
    marks=_marks,
)
