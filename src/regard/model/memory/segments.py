"""A text read segment by segment: each layer attends to its inputs of earlier segments too, which are kept and not trained.

Dai et al. 2019, Transformer-XL, section 3.2: h_t of layer n reads [SG(m), h] of layer n - 1, where m are the last M inputs of
that layer before the segment and SG stops gradients. Keys and values are computed from the kept inputs in every segment again, so
the projections learn from them. A pre-norm layer normalises what it reads, and so the memory too.

With the weights fixed, this is a pattern of visibility: a token sees the tokens of its segment up to itself and M before the
segment (`Segments`). One pass over a whole text with that pattern equals reading segment by segment, so scoring, searches and
pictures use it, and keys and values in an ordinary cache are the memory. `same_length` shows each token M tokens, itself counted.

A memory begins empty, as in the authors' code, or with M vectors of zeros that are attended to, as in transformers.

Differs from the paper's code in: the kept tokens are always the last M (it swaps two arguments, and keeps others where M and the
length of a segment differ); no dropout of the vectors of distances.

Dims: B rows, L tokens of a segment, M tokens of memory, S streams, N layers, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.packing import Packing, Pieces, Segment
from regard.model.layers import Linear
from regard.model.state.kv_cache import Cache, Prompt
from regard.model.visibility import View, Visibility, causal, full, window
from regard.model.visibility.parse import parse_visibility

if TYPE_CHECKING:
    from regard.model.attention import Attention
    from regard.model.block import Block, Stack
    from regard.model.position.base import Placement


@dataclass(frozen=True)
class Segments(Visibility):
    """What is kept when a text is read in segments of `length` tokens: these and `memory` tokens before; it begins at `first`."""

    length: int
    memory: int
    first: int = 0
    sees_itself = True

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j >= i - (i - self.first) % self.length - self.memory

    def __str__(self) -> str:
        return f"segments({self.length}, {self.memory})"


@dataclass(frozen=True, eq=False)
class Filled(Visibility):
    """Of M places of memory before a segment, the last filled_B[b]."""

    filled_B: Tensor
    memory: int
    sees_itself = varies = True

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j >= self.memory - self.filled_B[b]

    @property
    def data_independent(self) -> Visibility:
        return full

    def __str__(self) -> str:
        return "filled"


class SegmentMemory:
    """The last M inputs of each layer of every stream. A segment changes them when it is committed, after its gradients.

    Their tensors keep their addresses, so that captured steps can read and write them.
    """

    def __init__(self, config: Any, segment: int, length: int) -> None:
        """`config` is that of a decoder with `MemorySettings`."""
        self.config, self.segment, self.length, self.zeros = config, segment, length, config.memory_start == "zeros"
        seen = causal & parse_visibility(config.visibility)
        self.visible = seen & window(length - 1) if config.same_length else seen  # by a segment, whatever its length
        # By a whole text, which begins after the zeros of the memory, if any.
        self.pattern = self.visible & Segments(segment, length, length * self.zeros)
        self.states_NSMD: Tensor | None = None
        self.filled_S: Tensor | None = None
        self.at_once = False  # is a segment kept without being committed?
        self.waiting: list[tuple[Tensor, Tensor, Tensor]] = []  # rows, how full they are, and their states, not committed

    @classmethod
    def of(cls, config: Any) -> Self | None:
        return cls(config, config.maximum_length, config.memory) if config.memory else None

    def decode(
        self,
        stack: Stack,
        x_BLD: Tensor,
        documents: Packing | Pieces | Segment | None,
        then: Sequence[Cache] | None = None,
        shift: int = 0,
    ) -> Tensor:
        """Return x_BLD of one segment after its streams' memories, or without streams of whole texts, after zeros.

        Keys that `then` keeps may be turned by their positions, so those must be of the text: `shift` is that of the first place
        of the memory.
        """
        if isinstance(documents, Packing | Pieces):
            raise UserError(
                "model.memory_start=zeros puts zeros before each text, and here several texts share a row; set "
                "model.memory_start=empty."
            )
        batch, length, width = x_BLD.shape
        if documents is None:
            states_NBMD = x_BLD.new_zeros(len(stack.blocks), 1, self.length, width).expand(-1, batch, -1, -1)
            pattern = self.pattern
        else:
            states_NBMD, filled_B = self._read(documents, len(stack.blocks), x_BLD)
            pattern = self.visible & Filled(filled_B, self.length)
        caches = memory_caches(stack, states_NBMD, then, shift)
        sizes: Any = {"batch": batch, "offset": self.length, "device": x_BLD.device}
        view = pattern.over(length, self.length + length, **sizes)
        inputs: list[Tensor] = []
        if shift and caches[0].turns:
            at_BL, at_BM = view.positions()
            view = replace(view, places=lambda: (at_BL + shift, at_BM + shift))
        x_BLD = stack(x_BLD, view, caches=caches, inputs=inputs)
        if documents is not None:
            read_NBLD = torch.stack([layer_BLD.detach() for layer_BLD in inputs]).to(states_NBMD.dtype)
            kept_NBMD = torch.cat([states_NBMD, read_NBLD], 2)[:, :, -self.length :]
            self.waiting.append((documents.streams_B, (filled_B + length).clamp(max=self.length), kept_NBMD))
            if self.at_once:
                self.commit()
        return x_BLD

    def encode(self, stack: Stack, x_BPD: Tensor) -> list[tuple[Tensor, ...]]:
        """Return keys and values of prompts for every layer, read segment by segment, those of zeros at the start included."""
        memory, rows, parts = SegmentMemory(self.config, self.segment, self.length), len(x_BPD), list[list[Tensor]]()
        memory.at_once = True
        streams_B = torch.arange(rows, device=x_BPD.device)
        for begin in range(0, max(1, x_BPD.shape[1]), self.segment):
            where = Segment(streams_B, torch.full_like(streams_B, begin == 0, dtype=torch.bool), rows)
            caches, first = [Prompt() for _ in stack.blocks], begin - self.length * (not self.zeros)
            memory.decode(stack, x_BPD[:, begin : begin + self.segment], where, caches, first)
            before = 0 if self.zeros and begin == 0 else self.length
            parts.append([cache.kv_2SHPK[:, :, :, before:] for cache in caches])
        return [torch.cat(layer, 3).unbind() for layer in zip(*parts)]

    def _read(self, segment: Segment, layers: int, like_BLD: Tensor) -> tuple[Tensor, Tensor]:
        """Return states_NBMD of a segment's streams and how many are there; fresh streams have none, or zeros."""
        if self.states_NSMD is None or self.filled_S is None:
            self.states_NSMD = like_BLD.new_zeros(layers, segment.streams, self.length, like_BLD.shape[2]).detach()
            self.filled_S = like_BLD.new_zeros(segment.streams, dtype=torch.long)
        begins = self.length * self.zeros
        filled_B = self.filled_S[segment.streams_B].masked_fill(segment.fresh_B, begins)
        return self.states_NSMD[:, segment.streams_B].masked_fill(segment.fresh_B[:, None, None], 0.0), filled_B

    def commit(self) -> None:
        """Keep the states of all segments since the last time."""
        for streams_B, filled_B, states_NBMD in self.waiting:
            assert self.states_NSMD is not None
            assert self.filled_S is not None
            self.states_NSMD.index_copy_(1, streams_B, states_NBMD)
            self.filled_S.index_copy_(0, streams_B, filled_B)
        self.discard()

    def discard(self) -> None:
        """Forget the segments that are not committed."""
        self.waiting.clear()

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps, so that a resumed training goes on with the same memory."""
        if self.states_NSMD is None or self.filled_S is None:
            return {}
        return {"states": self.states_NSMD, "filled": self.filled_S}

    def load(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Continue with what a checkpoint kept."""
        self.states_NSMD, self.filled_S = tensors["states"].to(device), tensors["filled"].to(device)


class MemoryCache:
    """The memory of one layer in front of the keys and values of a segment."""

    def __init__(self, block: Block, memory_BMD: Tensor, position: Placement | None, then: Cache | None) -> None:
        self.block, self.memory_BMD, self.position, self.then = block, memory_BMD, position, then
        self.turns = position is not None and position.rotates

    def append(self, kv_2BHLK: Tensor) -> Any:
        residual, memory_BMD = self.block["self"], self.memory_BMD
        attention = cast("Attention", residual.layer)
        memory_BMD = residual.norm(memory_BMD) if residual.pre else memory_BMD
        if type(project := attention.project) is Linear:  # of a plain matrix the rows of queries are not needed
            bias = None if project.bias is None else project.bias[attention.inner :]
            kv_BME = F.linear(memory_BMD, project.weight[attention.inner :], bias)
        else:
            kv_BME = project(memory_BMD)[..., attention.inner :]
        k_BHMK, v_BHMK = kv_BME.unflatten(-1, (2, attention.kv_heads, -1)).permute(2, 0, 3, 1, 4)
        k_BHMK = k_BHMK if attention.key_norm is None else attention.key_norm(k_BHMK)
        if self.position is not None and self.turns:
            k_BHMK = self.position.rotate(k_BHMK)
        whole_2BHTK = torch.cat([torch.stack([k_BHMK, v_BHMK]).to(kv_2BHLK.dtype), kv_2BHLK], 3)
        return whole_2BHTK if self.then is None else self.then.append(whole_2BHTK)


def memory_caches(stack: Stack, states_NBMD: Tensor, then: Sequence[Cache] | None = None, shift: int = 0) -> list[MemoryCache]:
    """Return a cache for each layer; what stands before a segment has the positions from `shift` on."""
    length = states_NBMD.shape[2]
    view = View(full, 1, length, length, shift, states_NBMD.device)
    position = None if stack.position is None else stack.position.over(view)
    return [
        MemoryCache(block, states_NBMD[n], None if position is None else position.layer(n), then[n] if then else None)
        for n, block in enumerate(stack.blocks)
    ]


@contextmanager
def reading(model: nn.Module, segment: int = 0, length: int = 0) -> Iterator[SegmentMemory]:
    """Give a model another memory for a while, to read texts beside those of its training; 0: of its own size.

    Without gradients to come, what is read is kept at once.
    """
    own: Any = model.segment_memory
    pattern, was = model.visibility, own
    memory = read_in_segments(model, segment or own.segment, length or own.length)
    memory.at_once = True
    try:
        yield memory
    finally:
        model.segment_memory, model.visibility = was, pattern


def read_in_segments(model: Any, segment: int, length: int) -> SegmentMemory:
    """Let a trained model read whole texts as if in segments of these sizes: to continue them and look into them."""
    model.segment_memory = SegmentMemory(model.config, segment, length)
    model.visibility = model.segment_memory.pattern
    return model.segment_memory
