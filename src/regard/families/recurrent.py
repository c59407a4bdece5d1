"""The recurrent encoder-decoder: what translated before the Transformer, with and without attention.

Sutskever et al. 2014 and Cho et al. 2014 (`attention = "none"`: all of the source in one vector), Bahdanau et al. 2015 and Luong
et al. 2015 (`model/recurrent/decoders.py`). The score is `mixer`'s to say; where it says nothing, additive for Bahdanau's and
bilinear for Luong's. `visibility = "window(8)"` is Luong's local-m: word t looks at the source words around place t.

`scheduled_sampling` is the share of target words that training takes from the model itself (Bengio et al. 2015), drawn from what
the model predicts after the true words, all words at once (Duckworth et al. 2019); so no decoder has to go word by word for it.

Differs from the papers in: decoders begin with tanh(V v) of the one vector v that the encoder ends with, as Cho's and Bahdanau's,
where Sutskever hands over every layer's state and Luong too; sources are not turned round; local-p is not there (decision 0029).

The two ends of a recurrent encoder-decoder, where words go in and come out: the same whatever it reads and looks back at.

A decoder begins with tanh(V v) of one vector v that was made of all that was read. Tokens have a vector each and no places, since
order is what a recurrence knows by itself.

Dims: B batch, D width, N layers, P parts of what a cell carries, C = N P D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from regard.core.config import Count, Fraction, check_bounds
from regard.core.errors import UserError, nearest
from regard.core.packing import Packing, Words
from regard.families.base import CellConfig, Family, Sizes, all_words, random_ids
from regard.model.embedding import Embed, VocabularyHead
from regard.model.init import initialise
from regard.model.layers import Linear, autocast_dtype
from regard.model.mixers import SCORES
from regard.model.recurrent.cells import PARTS, CellKind, RecurrentEncoder
from regard.model.recurrent.decoders import Bahdanau, Decoder, Kind, Luong, Source, WithoutAttention
from regard.model.state.recurrent import RecurrentPrompt
from regard.model.visibility import Full, Window, padding
from regard.model.visibility.parse import parse_visibility
from regard.text.specials import PAD

DRAWN_AT_A_TIME = 1024  # words, of which each has a probability for every word of the vocabulary


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(CellConfig):
    family: Literal["recurrent"] = "recurrent"
    cell: CellKind = "lstm"
    width: Count = 512
    layers: Count = 1
    bidirectional: bool = True  # the encoder: each way has half of the width
    attention: Kind = "luong"
    mixer: str = ""  # as in the paper where nothing is said
    input_feeding: bool = False  # of Luong's decoder
    scheduled_sampling: float = 0.0
    dropout: Fraction = 0.1
    visibility: str = "full"
    tie: Literal["all", "output", "none"] = "all"  # one matrix for source, target and output; target and output; none

    def __post_init__(self) -> None:
        check_bounds(self, "model.")
        if self.bidirectional and self.width % 2:
            raise UserError(f"model.width={self.width} cannot be halved between two ways of reading; give an even number.")
        if not 0 <= self.scheduled_sampling <= 1:
            raise UserError(f"model.scheduled_sampling={self.scheduled_sampling} is a share of words; give a number from 0 to 1.")
        if self.mixer and self.mixer not in SCORES:
            raise UserError(f"model.mixer={self.mixer} does not score single words{nearest(self.mixer, SCORES)}")
        if not isinstance(parse_visibility(self.visibility), Full | Window):
            raise UserError(
                f"model.visibility={self.visibility} is not for model.family=recurrent, which looks back at all of the source or "
                "at the words around; give full, or a window such as window(8)."
            )
        if self.attention == "none" and (self.mixer or self.visibility != "full"):
            raise UserError("model.attention=none looks at nothing: leave model.mixer and model.visibility out.")
        if self.input_feeding and self.attention != "luong":
            raise UserError(f"model.input_feeding=true is for model.attention=luong, not for {self.attention}; leave it out.")

    @property
    def score(self) -> str:
        return self.mixer or {"none": "", "bahdanau": "additive", "luong": "bilinear"}[self.attention]

    @property
    def depth(self) -> tuple[int, int]:  # type: ignore[override]
        return self.layers, self.layers

    @property
    def attends(self) -> str:
        return "" if self.attention == "none" else f"decoder to {self.visibility} & padding; mixer {self.score}"

    @property
    def kept_of_source(self) -> int:  # type: ignore[override]
        """Return the numbers that decoding keeps of each source word: a key and a value where it attends to the source."""
        return 0 if self.attention == "none" else 2 * self.width

    @property
    def carried(self) -> int:  # type: ignore[override]
        """Return the numbers that decoding keeps whatever the length: the states of its cells."""
        return (self.layers * PARTS[self.cell] + self.input_feeding) * self.width


class Recurrent(nn.Module):
    def __init__(self, config: RecurrentConfig, source_vocabulary: int, target_vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        self.visibility = parse_visibility(c.visibility)
        self.source, self.target = embeddings(c, source_vocabulary, target_vocabulary)
        self.encoder = RecurrentEncoder(c.cell, c.width, c.layers, bidirectional=c.bidirectional, dropout=c.dropout)
        self.begin = Linear(c.width, c.layers * PARTS[c.cell] * c.width)
        self.decoder = _decoder(c)
        self.dropout = nn.Dropout(c.dropout)
        self.head = VocabularyHead(c.width, target_vocabulary, None if c.tie == "none" else self.target.tokens)
        initialise(self, seed)

    def forward(self, source_BM: Tensor, lengths_B: Words, target_BL: Tensor, target: Packing | None = None) -> Tensor:
        """logits_BLV for every target position at once; position l has seen targets 0..l (teacher forcing)."""
        return self.head(self.hidden(source_BM, lengths_B, target_BL, target))

    def hidden(self, source_BM: Tensor, lengths_B: Words, target_BL: Tensor, target: Packing | None = None) -> Tensor:
        """The vectors x_BLD that `forward` asks the head about."""
        begin_NPBD, source = self.encode(source_BM, side_by_side(lengths_B, target), target_BL.shape[1])
        if self.training and self.config.scheduled_sampling:
            target_BL = self._some_of_its_own(target_BL, begin_NPBD, source)
        return self.dropout(self._written(target_BL, begin_NPBD, source))

    def read(self, source_BM: Tensor, lengths_B: Tensor) -> Tensor:
        """A vector for every source word."""
        return self.encoder(self.source(source_BM), lengths_B)[0]

    def encode(self, source_BM: Tensor, lengths_B: Tensor, length: int) -> tuple[Tensor, Source]:
        """Return the first state of the decoder, and the source that `length` target words attend to."""
        memory_BMD, end_BD = self.encoder(self.source(source_BM), lengths_B)
        begin_NPBD = beginning(self.begin, end_BD, self.config.layers)
        if self.decoder.aligner is None:
            return begin_NPBD, Source(None, None)
        batch, words = source_BM.shape
        view = (self.visibility & padding(lengths_B)).over(length, words, batch=batch, device=source_BM.device)
        return begin_NPBD, Source(self.decoder.aligner.project_kv(memory_BMD), view if view.blocks is None else view.rendered())

    def _written(self, target_BL: Tensor, begin_NPBD: Tensor, source: Source) -> Tensor:
        y_BLD = self.target(target_BL)
        return self.decoder(y_BLD, begin_NPBD, source).to(y_BLD.dtype)

    @torch.no_grad()
    def _some_of_its_own(self, target_BL: Tensor, begin_NPBD: Tensor, source: Source) -> Tensor:
        """Return the target with some words replaced by the model's own. torch draws them; training seeds torch at each step."""
        x_ND = self._written(target_BL, begin_NPBD, source).flatten(0, 1)
        drawn = [_drawn(self.head(part_ND)) for part_ND in x_ND.split(DRAWN_AT_A_TIME)]
        own_BL = torch.cat(drawn).view_as(target_BL).roll(1, 1)
        chosen_BL = torch.rand(target_BL.shape, device=target_BL.device) < self.config.scheduled_sampling
        later_L = torch.arange(target_BL.shape[1], device=target_BL.device) > 0  # the first word is always <sos>
        return torch.where(chosen_BL & later_L & (target_BL != PAD), own_BL, target_BL)

    @torch.no_grad()
    def start(self, source_BM: Tensor, lengths_B: Tensor) -> RecurrentPrompt:
        begin_NPBD, source = self.encode(source_BM, lengths_B, 1)
        return RecurrentPrompt(self, begin_NPBD, lengths_B, source.memory)


def _drawn(logits_NV: Tensor) -> Tensor:
    """Sample one word a row by the exponential race. torch.multinomial would make the device wait."""
    chances_NV = logits_NV.float().softmax(-1)
    return (chances_NV / torch.empty_like(chances_NV).exponential_()).argmax(-1)


def _decoder(config: RecurrentConfig) -> Decoder:
    c = config
    match c.attention:
        case "none":
            return WithoutAttention(c.cell, c.width, c.layers, c.dropout)
        case "bahdanau":
            return Bahdanau(c.cell, c.width, c.layers, c.dropout, c.score)
        case "luong":
            return Luong(c.cell, c.width, c.layers, c.dropout, c.score, c.input_feeding)


class Ends(Protocol):
    """Settings that the input and the output of a recurrent encoder-decoder need."""

    @property
    def cell(self) -> CellKind: ...
    @property
    def width(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def dropout(self) -> float: ...
    @property
    def tie(self) -> str: ...


def embeddings(config: Ends, source_vocabulary: int, target_vocabulary: int) -> tuple[Embed, Embed]:
    source, target = (
        Embed(vocabulary, config.width, position="none", maximum_length=1, dropout=config.dropout)
        for vocabulary in (source_vocabulary, target_vocabulary)
    )
    if config.tie == "all":
        target.tokens = source.tokens
    return source, target


def side_by_side(lengths_B: Words, target: Packing | None) -> Tensor:
    """Return lengths_B; packed sequences are refused."""
    if not isinstance(lengths_B, Tensor) or target is not None:
        raise TypeError("a recurrent network reads sequences side by side, so they are padded for it, not packed end to end")
    return lengths_B


def beginning(begin: Linear, of_BD: Tensor, layers: int) -> Tensor:
    """begin_NPBD: what the cells of every layer carry before the first word."""
    begin_BC = begin(of_BD).tanh()
    if autocast_dtype(begin_BC.device.type) is not None:
        begin_BC = begin_BC.float()  # sums over all words are never rounded to half precision
    return begin_BC.unflatten(1, (layers, -1, of_BD.shape[-1])).permute(1, 2, 0, 3)


def pair_inputs(config: Any, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (source_BM, lengths_B, target_BL)."""
    return random_ids(sizes.vocabulary, batch, source), all_words(batch, source), random_ids(sizes.written, batch, length)


FAMILY = Family(
    name="recurrent",
    config=RecurrentConfig,
    build=lambda config, sizes, seed: Recurrent(config, sizes.vocabulary, sizes.written, seed),
    inputs=pair_inputs,
    capabilities=frozenset({"seq2seq", "attention"}),
)
