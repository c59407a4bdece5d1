"""The hierarchical recurrent attention network: it replies to a dialogue, and looks at its turns and at the words in them.

Xing et al. 2018: every turn is read by itself, word by word; the decoder looks at the words of each turn, reads the turns with
what it found there, and looks at those (`model/recurrent/hran_decoder.py`). `encoder` chooses what reads words: gru as in the
paper, lstm, or blocks of a Transformer; the decoder has gru cells, or lstm with lstm.

A source is the turns of a dialogue in one row, between them the last piece of the vocabulary, which ends a turn
(`Tokenizer.with_turns`). A source without it is one turn, so this is also a translator.

Differs from the paper in: the decoder begins with tanh(V v), v the mean of the words of the last turn; the paper does not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.config import Count, Fraction, check_bounds
from regard.core.packing import Packing, Words
from regard.families.base import CellConfig, Family, Sizes
from regard.families.recurrent import beginning, embeddings, pair_inputs, side_by_side
from regard.model.block import BlockConfig
from regard.model.embedding import VocabularyHead
from regard.model.hierarchy import Encoder, Level, Nested, blocks_of
from regard.model.init import initialise
from regard.model.layers import Linear
from regard.model.probe import taken_apart
from regard.model.recurrent.cells import PARTS, CellKind
from regard.model.recurrent.decoders import Source, Turns
from regard.model.recurrent.hran_decoder import ByTurns
from regard.model.state.recurrent import RecurrentPrompt
from regard.model.visibility import full, padding


@dataclass(frozen=True, kw_only=True)
class HRANConfig(CellConfig):
    family: Literal["hran"] = "hran"
    encoder: Encoder = "gru"
    width: Count = 512
    layers: Count = 1
    heads: int = 0  # of transformer; 0: 4
    feedforward: int = 0  # of transformer; 0: four widths
    dropout: Fraction = 0.1
    tie: Literal["all", "output", "none"] = "all"  # one matrix for source, target and output; target and output; none

    def __post_init__(self) -> None:
        check_bounds(self, "model.")
        _ = self.blocks  # which are refused where they make no sense

    @property
    def blocks(self) -> BlockConfig:
        return blocks_of(self.encoder, self.width, self.heads, self.feedforward, self.dropout)

    @property
    def cell(self) -> CellKind:  # type: ignore[override]
        return "lstm" if self.encoder == "lstm" else "gru"

    @property
    def depth(self) -> tuple[int, int]:  # type: ignore[override]
        return self.layers, self.layers

    @property
    def attends(self) -> str:
        return "decoder to the words of each turn and to the turns; mixer additive"

    @property
    def kept_of_source(self) -> int:  # type: ignore[override]
        return 2 * self.width

    @property
    def carried(self) -> int:  # type: ignore[override]
        return self.layers * PARTS[self.cell] * self.width


class HRAN(nn.Module):
    def __init__(self, config: HRANConfig, source_vocabulary: int, target_vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        self.visibility, self.turn_end = full, source_vocabulary - 1
        self.source, self.target = embeddings(c, source_vocabulary, target_vocabulary)
        self.words = Level(c.encoder, c.blocks, c.layers, "encoder")
        self.begin = Linear(c.width, c.layers * PARTS[c.cell] * c.width)
        self.decoder = ByTurns(c.cell, c.width, c.layers, c.dropout)
        self.dropout = nn.Dropout(c.dropout)
        self.head = VocabularyHead(c.width, target_vocabulary, None if c.tie == "none" else self.target.tokens)
        initialise(self, seed)

    def forward(self, source_BM: Tensor, lengths_B: Words, target_BL: Tensor, target: Packing | None = None) -> Tensor:
        """logits_BLV for every target position at once; position l has seen targets 0..l (teacher forcing)."""
        return self.head(self.hidden(source_BM, lengths_B, target_BL, target))

    def hidden(self, source_BM: Tensor, lengths_B: Words, target_BL: Tensor, target: Packing | None = None) -> Tensor:
        """The vectors x_BLD that `forward` asks the head about."""
        begin_NPBD, source = self.encode(source_BM, side_by_side(lengths_B, target), target_BL.shape[1])
        y_BLD = self.target(target_BL)
        return self.dropout(self.decoder(y_BLD, begin_NPBD, source).to(y_BLD.dtype))

    def read(self, source_BM: Tensor, lengths_B: Tensor) -> Tensor:
        """A vector for every source word, in the context of its turn; zeros for marks."""
        return self._read(self._nested(source_BM, lengths_B), source_BM)

    def encode(self, source_BM: Tensor, lengths_B: Tensor, length: int) -> tuple[Tensor, Source]:
        """Return the first state of the decoder, and the source that `length` target words attend to."""
        found = self._nested(source_BM, lengths_B)
        h_BMD = self._read(found, source_BM)
        turns = Turns(found.from_the_last(), found.most, max(found.lengths))
        last_BM = (turns.of_SM == 0).to(h_BMD.dtype)
        mean_BD = (last_BM[:, None] @ h_BMD).squeeze(1) / last_BM.sum(1, keepdim=True)
        begin_NPBD = beginning(self.begin, mean_BD, self.config.layers)
        batch, words = source_BM.shape
        view = padding(lengths_B).over(length, words, batch=batch, device=source_BM.device)
        return begin_NPBD, Source(self.decoder.aligner.project_kv(h_BMD), view, turns)

    def _nested(self, source_BM: Tensor, lengths_B: Tensor) -> Nested:
        return Nested.of(source_BM, lengths_B, self.turn_end)

    def _read(self, found: Nested, source_BM: Tensor) -> Tensor:
        with taken_apart(self.decoder.aligner.probe, found.sentences_B):
            return found.together(self.words(found.apart(self.source(source_BM)), found.words_S, found.lengths))

    @torch.no_grad()
    def start(self, source_BM: Tensor, lengths_B: Tensor) -> RecurrentPrompt:
        begin_NPBD, source = self.encode(source_BM, lengths_B, 1)
        return RecurrentPrompt(self, begin_NPBD, lengths_B, source.memory, source.turns)


def _inputs(config: HRANConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (source_BM, lengths_B, target_BL) with turns of four words."""
    source_BM, lengths_B, target_BL = pair_inputs(config, sizes, batch, length, source)
    source_BM[:, 4::5] = sizes.vocabulary - 1
    return source_BM, lengths_B, target_BL


FAMILY = Family(
    name="hran",
    config=HRANConfig,
    build=lambda config, sizes, seed: HRAN(config, sizes.vocabulary, sizes.written, seed),
    inputs=_inputs,
    capabilities=frozenset({"seq2seq", "dialogue_context", "attention", "compiles_steps"}),
)
