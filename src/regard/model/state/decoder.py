"""The decoding state of a Transformer decoder: keys and values of source, prompt and generated tokens.

An encoder-decoder encodes a source for its cross-attention; a decoder-only model encodes a prompt as keys and values of its
self-attention. `EncodedPrompt` holds either as the model computed it; `DecoderState` copies it into buffers that several searches
use, one after the other.

Dims: S sentences, W lanes, M memory length, P prompt length; rows of both are padded at the right.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload

import torch
from torch import Tensor, nn

from regard.model.attention import Attention, KeysValues
from regard.model.block import Stack
from regard.model.embedding import Embed, InputPositions
from regard.model.mixers.causal_scan import Sums
from regard.model.probe import attentions
from regard.model.recurrent.decoders import Aligner
from regard.model.state.kv_cache import BeamAncestry, CrossSums, round_to_stride
from regard.model.state.protocol import RowCompaction
from regard.model.visibility import View, Visibility, padding


class Steps(Protocol):
    """A model whose decoder is a stack of blocks and that can decode one token a lane."""

    decoder: Stack

    def step(self, ids_SW: Tensor, past: DecoderState) -> Tensor:
        """Return logits_SWV after one more token in every lane."""
        ...


@dataclass(frozen=True, eq=False)
class EncodedPrompt:
    """Keys and values of encoded prompts or sources: one pair for each decoder block that has keys."""

    model: Steps
    embed: Embed  # of what is written
    prompts: Sequence[tuple[Tensor, ...]]  # of self-attention; of length 0 without a prompt
    prompt_words_S: Tensor
    memories: Sequence[KeysValues] = ()  # of cross-attention, if there is an encoder
    memory_words_S: Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.prompt_words_S.device

    @property
    def rows(self) -> int:
        return len(self.prompt_words_S)

    @property
    def positions(self) -> InputPositions:
        return self.embed.positions

    @property
    def probed(self) -> bool:
        assert isinstance(self.model, nn.Module)
        return any(attention.probe is not None for attention in attentions(self.model).values())

    @property
    def session_key(self) -> Hashable:
        """Return the model's id, the addresses of its weights, and the sizes as `make_state` rounds them."""
        assert isinstance(self.model, nn.Module)
        sizes = [round_to_stride(parts[0][0].shape[2]) if parts else 0 for parts in (self.prompts, self.memories)]
        weights = tuple(weight.data_ptr() for weight in self.model.parameters())
        return id(self.model), weights, *sizes, self.prompts[0][0].dtype

    def make_state(self, sentences: int, lanes: int, tokens: int, *, fixed: bool) -> DecoderState:
        return DecoderState(self, sentences, lanes, tokens, fixed)

    def repeat(self, copies: int) -> EncodedPrompt:
        """Return each row `copies` times, side by side."""
        if copies == 1:
            return self

        def rows(part_S: Tensor) -> Tensor:
            return part_S.repeat_interleave(copies, 0)

        words_S = None if self.memory_words_S is None else rows(self.memory_words_S)
        return replace(
            self,
            prompts=[tuple(map(rows, prompt)) for prompt in self.prompts],
            prompt_words_S=rows(self.prompt_words_S),
            memories=[KeysValues(*map(rows, memory)) for memory in self.memories],
            memory_words_S=words_S,
        )


@dataclass(frozen=True, eq=False)
class WrappedPrompt:
    """Encoded prompts that are decoded by another state than `DecoderState`. A search takes it like any other input."""

    read: EncodedPrompt

    @property
    def device(self) -> torch.device:
        return self.read.device

    @property
    def rows(self) -> int:
        return self.read.rows

    @property
    def probed(self) -> bool:
        return self.read.probed


class EachLayer(Sequence[KeysValues]):
    """Keys and values of a memory, made for one layer when that layer asks, so that those of all layers never exist at once."""

    def __init__(self, layers: int, make: Callable[[int], KeysValues]) -> None:
        self.layers, self.make = layers, make

    def __len__(self) -> int:
        return self.layers

    @overload
    def __getitem__(self, n: int) -> KeysValues: ...
    @overload
    def __getitem__(self, n: slice) -> Sequence[KeysValues]: ...
    def __getitem__(self, n: int | slice) -> KeysValues | Sequence[KeysValues]:
        return [self.make(one) for one in range(self.layers)[n]] if isinstance(n, slice) else self.make(range(self.layers)[n])


class CrossKV:
    """Buffers of one cross-attention layer: keys and values of the sources."""

    buffers: Sequence[Tensor]

    def __init__(self, like: KeysValues, sentences: int, length: int) -> None:
        _, heads, _, head_width = like.k_BHMK.shape
        shape = (sentences, heads, length, head_width)
        self.buffers = [like.k_BHMK.new_zeros(shape), like.k_BHMK.new_zeros(shape)]

    def stored(self, memory: KeysValues) -> Sequence[Tensor]:
        """Return what is kept of keys and values, a part for each buffer."""
        return memory

    def load(self, memory: KeysValues, words_S: Tensor) -> None:
        for buffer_SHM, part_SHM in zip(self.buffers, self.stored(memory)):
            buffer_SHM[: part_SHM.shape[0], :, : part_SHM.shape[2]] = part_SHM

    def compact(self, moves: RowCompaction) -> None:
        for buffer_SHM in self.buffers:
            moves.within(buffer_SHM)

    def first(self, sentences: int) -> KeysValues:
        k_SHMK, v_SHMK = (buffer_SHMK[:sentences] for buffer_SHMK in self.buffers)
        return KeysValues(k_SHMK, v_SHMK)


class Memory:
    """Encoded sources, for all cross-attention layers; a step never changes them."""

    layer_type: type[CrossKV] = CrossKV

    def __init__(
        self, attentions: Sequence[Attention | Aligner], like: Sequence[KeysValues], sentences: int, length: int
    ) -> None:
        self.layers: list[CrossKV | CrossSums] = [
            self.layer_type(pair, sentences, length)
            if attention.mixer.recurrent_form is None
            else CrossSums(attention.mixer.recurrent_form, pair.k_BHMK, sentences)
            for attention, pair in zip(attentions, like)
        ]
        like_k = like[0].k_BHMK
        self.words_S = torch.ones(sentences, dtype=torch.long, device=like_k.device)
        self.mask_S11M = like_k.new_zeros(sentences, 1, 1, length)  # added to scores

    def load(self, memories: Sequence[KeysValues], words_S: Tensor) -> None:
        for layer, memory in zip(self.layers, memories):
            layer.load(memory, words_S)
        self.words_S.fill_(1)[: len(words_S)] = words_S  # an empty row sees one key: softmax over no key is NaN
        sees_SM = torch.arange(self.mask_S11M.shape[3], device=words_S.device) < self.words_S[:, None]
        self.mask_S11M.zero_().masked_fill_(~sees_SM[:, None, None], -torch.inf)
        self._set_view(len(self.words_S))

    def compact(self, moves: RowCompaction) -> None:
        for layer in self.layers:
            layer.compact(moves)
        for buffer_S in (self.words_S, self.mask_S11M):
            moves.within(buffer_S)
        self._set_view(moves.stay)

    def _set_view(self, sentences: int) -> None:
        """Set `parts` and `view` to the first rows of the buffers."""
        self.parts = self.make_parts(sentences)
        self.view = self.view_of(self.words_S[:sentences], self.mask_S11M[:sentences])

    def make_parts(self, sentences: int) -> Sequence[KeysValues | Sums]:
        """Return what each layer attends to, of the first sentences."""
        return [layer.first(sentences) for layer in self.layers]

    def view_of(self, words_R: Tensor, mask_R11M: Tensor, length: int = 1) -> View:
        """Return how sources of words_R tokens are seen by queries that all see alike."""
        return View(padding(words_R), len(words_R), length, mask_R11M.shape[3], 0, words_R.device, mask_R11M)

    def of_rows(self, rows_R: Tensor | None, length: int) -> tuple[Sequence[KeysValues], View]:
        """Return keys and values of some sentences, by default of all that are left, and their view from `length` tokens."""
        parts: Any = self.parts
        rows = slice(self.view.batch) if rows_R is None else rows_R
        view = self.view_of(self.words_S[rows], self.mask_S11M[rows], length)
        if rows_R is None:
            return parts, view
        return EachLayer(len(parts), lambda n: KeysValues(*(part_SHMK[rows_R] for part_SHMK in parts[n]))), view


def memory_of(read: EncodedPrompt, sentences: int, length: int | None = None, kind: type[Memory] = Memory) -> Memory | None:
    """Make buffers for encoded sources of up to `length` tokens, by default as many as were read; None without an encoder."""
    if not read.memories:
        return None
    crosses = [block.cross_attention for block in read.model.decoder.blocks if block.cross_attention is not None]
    return kind(crosses, read.memories, sentences, read.memories[0].k_BHMK.shape[2] if length is None else length)


class DecoderState:
    """The state of a decoder made of blocks. A family's `step` reads its positions, view, caches and memories."""

    def __init__(self, read: EncodedPrompt, sentences: int, lanes: int, tokens: int, fixed: bool) -> None:
        rounded = round_to_stride if fixed else int
        like_SHPK, blocks = read.prompts[0][0], read.model.decoder.blocks
        self.model = read.model
        steps, slotted = round_to_stride(tokens) if fixed else 0, any(block.self_attention.keeps_slots for block in blocks)
        self.ancestry = BeamAncestry(sentences, lanes, rounded(like_SHPK.shape[2]), steps, like_SHPK, slotted)
        self.caches = [block.self_attention.make_cache(self.ancestry, prompt[0]) for block, prompt in zip(blocks, read.prompts)]
        length = read.memories[0].k_BHMK.shape[2] if read.memories else 0
        self.memory = memory_of(read, sentences, rounded(length))

    @property
    def shape(self) -> Hashable:
        return self.ancestry.sentences, self.ancestry.visible

    @property
    def positions_SW(self) -> Tensor:
        return self.ancestry.positions_SW

    def view(self, visibility: Visibility) -> View:
        return self.ancestry.view(visibility)

    @property
    def memories(self) -> Sequence[KeysValues | Sums] | None:
        return self.memory.parts if self.memory else None

    @property
    def memory_view(self) -> View | None:
        return self.memory.view if self.memory else None

    @torch.no_grad()
    def load(self, read: EncodedPrompt, limits: Sequence[int]) -> None:
        for words, limit in zip(read.prompt_words_S.tolist(), limits):
            read.positions.check(words + limit)
        self.ancestry.restart(read.prompt_words_S, torch.tensor(limits, device=read.device))
        for cache, prompt in zip(self.caches, read.prompts):
            cache.restart(read.prompt_words_S, *prompt)
        if self.memory and read.memory_words_S is not None:
            self.memory.load(read.memories, read.memory_words_S)

    def grow(self, tokens: int) -> None:
        self.ancestry.grow(tokens)
        for cache in self.caches:
            cache.grow()

    @torch.no_grad()
    def step(self, ids_SW: Tensor) -> Tensor:
        self.ancestry.begin_step()
        logits_SWV = self.model.step(ids_SW, self)
        self.ancestry.end_step()
        return logits_SWV

    def select(self, parents_SW: Tensor) -> None:
        self.ancestry.select(parents_SW)
        for cache in self.caches:
            cache.select(parents_SW)

    def compact(self, moves: RowCompaction) -> None:
        for cache in self.caches:
            cache.compact(moves)
        self.ancestry.compact(moves)
        if self.memory:
            self.memory.compact(moves)
