"""The decoding state of a recurrent decoder: a few hidden vectors for each lane, and the encoded source.

The same two classes as in `decoder.py`, for the same searches. Hidden vectors lie in buffers that keep their addresses, so a CUDA
graph can capture a step; selecting lanes copies these vectors.

Dims: S sentences, W lanes, M source length, N layers, P parts of what a cell carries, D width.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.model.attention import KeysValues
from regard.model.embedding import Embed, VocabularyHead
from regard.model.probe import attentions
from regard.model.recurrent.decoders import Decoder, Now, Source, Turns
from regard.model.recurrent.hran_decoder import ByTurns
from regard.model.state.decoder import Memory
from regard.model.state.kv_cache import round_to_stride
from regard.model.state.protocol import RowCompaction
from regard.model.visibility import Full, View, Visibility, given


class Writes(Protocol):
    """A model with a target embedding, a recurrent decoder, a vocabulary head and the visibility of its source."""

    @property
    def target(self) -> Embed: ...
    @property
    def decoder(self) -> Decoder | ByTurns: ...
    @property
    def head(self) -> VocabularyHead: ...
    @property
    def visibility(self) -> Visibility: ...


@dataclass(frozen=True, eq=False)
class RecurrentPrompt:
    """An encoded source: the decoder's initial hidden vectors, and the source's keys and values."""

    model: Writes
    begin_NPSD: Tensor
    words_S: Tensor
    memory: KeysValues | None  # if the decoder has attention
    turns: Turns | None = None  # of a dialogue

    @property
    def device(self) -> torch.device:
        return self.words_S.device

    @property
    def rows(self) -> int:
        return len(self.words_S)

    @property
    def probed(self) -> bool:
        assert isinstance(self.model, nn.Module)
        return any(aligner.probe is not None for aligner in attentions(self.model).values())

    @property
    def session_key(self) -> Hashable:
        """Return the model's id, the addresses of its weights, and the source length as `make_state` rounds it."""
        assert isinstance(self.model, nn.Module)
        size = 0 if self.memory is None else round_to_stride(self.memory.k_BHMK.shape[2])
        weights = tuple(weight.data_ptr() for weight in self.model.parameters())
        turns = (self.turns.most, round_to_stride(self.turns.longest)) if self.turns else None
        return id(self.model), weights, size, turns, self.begin_NPSD.dtype

    def make_state(self, sentences: int, lanes: int, tokens: int, *, fixed: bool) -> RecurrentDecoderState:
        return RecurrentDecoderState(self, sentences, lanes, fixed)


class RecurrentDecoderState:
    """Hidden vectors of all lanes, the source they attend to, and its turns if it is a dialogue."""

    def __init__(self, read: RecurrentPrompt, sentences: int, lanes: int, fixed: bool) -> None:
        self.model, decoder, like = read.model, read.model.decoder, read.begin_NPSD
        layers, parts, _, width = like.shape
        self.lanes, self.sentences = lanes, sentences
        self.carried_SWNPD = like.new_zeros(sentences, lanes, layers, parts, width)
        self.fed_SWD = like.new_zeros(sentences, lanes, decoder.fed)
        self.position_S1 = torch.zeros(sentences, 1, dtype=torch.long, device=like.device)
        self.memory: Memory | None = None
        self.turns: Turns | None = None
        if read.memory is not None and decoder.aligner is not None:
            length = read.memory.k_BHMK.shape[2]
            length = round_to_stride(length) if fixed else length
            self.memory = Memory([decoder.aligner], [read.memory], sentences, length)
            if read.turns is not None:
                longest = round_to_stride(read.turns.longest) if fixed else read.turns.longest
                self.turns = Turns(read.turns.of_SM.new_full((sentences, length), -1), read.turns.most, longest)

    @property
    def shape(self) -> Hashable:
        return self.sentences

    @property
    def now(self) -> Now:
        return Now(self.carried_SWNPD[: self.sentences].permute(2, 3, 0, 1, 4), self.fed_SWD[: self.sentences])

    @property
    def source(self) -> Source:
        if self.memory is None:
            return Source(None, None)
        (part,) = self.memory.parts
        assert isinstance(part, KeysValues)
        turns = self.turns and self.turns._replace(of_SM=self.turns.of_SM[: self.sentences])
        return Source(part, self._view(self.memory), turns)

    def _view(self, memory: Memory) -> View:
        """Return the view of the source words that are visible from the lanes' positions."""
        if isinstance(self.model.visibility, Full):
            return memory.view
        words_S, length = memory.words_S[: self.sentences], memory.view.memory
        position_S1, place_M = self.position_S1[: self.sentences], torch.arange(length, device=words_S.device)
        zero = place_M.new_zeros(1)
        sees_SM = self.model.visibility.sees(zero, zero, position_S1, place_M) & (place_M < words_S[:, None])
        fully_masked_S1 = ~sees_SM.any(-1, keepdim=True)
        pattern, mask_SM = given(sees_SM[:, None].expand(-1, self.lanes, -1)), sees_SM | fully_masked_S1
        return View(
            pattern, self.sentences, self.lanes, length, 0, words_S.device, mask_SM[:, None, None], fully_masked_S1[:, None, None]
        )

    @torch.no_grad()
    def load(self, read: RecurrentPrompt, limits: Sequence[int]) -> None:
        self.sentences = len(self.carried_SWNPD)
        rows = read.begin_NPSD.shape[2]
        self.carried_SWNPD.zero_()[:rows] = read.begin_NPSD.permute(2, 0, 1, 3)[:, None]
        self.fed_SWD.zero_()
        self.position_S1.zero_()
        if self.memory is not None and read.memory is not None:
            self.memory.load([read.memory], read.words_S)
        if self.turns is not None and read.turns is not None:
            assert read.turns.most <= self.turns.most, "the state was made for fewer turns"
            assert read.turns.longest <= self.turns.longest, "the state was made for shorter turns"
            rows, length = read.turns.of_SM.shape
            self.turns.of_SM.fill_(-1)[:rows, :length] = read.turns.of_SM

    def grow(self, tokens: int) -> None:
        """Do nothing: the state has a constant size."""

    @torch.no_grad()
    def step(self, ids_SW: Tensor) -> Tensor:
        """Return logits_SWV after one more token in every lane."""
        x_SWD, now = self.model.decoder.step(self.model.target(ids_SW), self.now, self.source)
        self.carried_SWNPD[: self.sentences] = now.carried_NPSWD.permute(2, 3, 0, 1, 4)
        self.fed_SWD[: self.sentences] = now.fed_SWD
        self.position_S1.add_(1)
        return self.model.head(x_SWD)

    def select(self, parents_SW: Tensor) -> None:
        for buffer_SW in (self.carried_SWNPD, self.fed_SWD):
            now_SW = buffer_SW[: self.sentences]
            places_SW = parents_SW.reshape(*parents_SW.shape, *[1] * (now_SW.dim() - 2))
            now_SW.copy_(now_SW.gather(1, places_SW.expand_as(now_SW)))

    def compact(self, moves: RowCompaction) -> None:
        for buffer_S in (self.carried_SWNPD, self.fed_SWD, self.position_S1):
            moves.within(buffer_S)
        if self.memory is not None:
            self.memory.compact(moves)
        if self.turns is not None:
            moves.within(self.turns.of_SM)
        self.sentences = moves.stay
