"""KV caches that hold less: the last tokens that a causal window sees, or keys and values in 8 bits.

A model whose visibility is a window sees the last R tokens and never again what came before (Beltagy et al. 2020). Its slots are
a ring: step t overwrites the oldest, so memory does not grow with the text. Equal to the plain cache, since what is overwritten
was hidden.

In 8 bits a key or value of one head and token has a scale of its own, its largest number divided by 127, so each of its numbers
is off by at most half a scale. A quarter of the memory of float32, and turned back into numbers for every step. Of an
encoder-decoder the keys and values of sources are kept in 8 bits as well; a window holds for what is written, and sources
are kept whole.

Dims: S sentences, W lanes, N slots, R slots of a ring.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.decode.config import Cache
from regard.decode.prefix_cache import must_keep_slots, visibility_of
from regard.model.attention import KeysValues
from regard.model.state.decoder import CrossKV, DecoderState, EachLayer, Memory, WrappedPrompt, memory_of
from regard.model.state.kv_cache import BeamAncestry, Slots, round_to_stride
from regard.model.state.protocol import RowCompaction
from regard.model.visibility import Visibility

LARGEST = 127  # of an integer of 8 bits, with either sign


def ring_size(visibility: Visibility) -> int:
    """Return how many tokens a query sees, its own included; refuse a pattern that may see any number."""
    if (reach := visibility.reach) is None or reach[0] < 0:
        raise UserError(
            f"decode.cache=window is for models that see a window of the last tokens, such as model.visibility='window(64)', and "
            f"this one sees {visibility}; leave it out, or give decode.cache=int8."
        )
    return reach[0] + 1


@dataclass(frozen=True, eq=False)
class CompactInput(WrappedPrompt):
    """Encoded prompts or sources that are decoded with a smaller cache."""

    kind: Literal["window", "int8"]

    def __post_init__(self) -> None:
        check_cache(self.read.model, self.kind)

    @property
    def session_key(self) -> Hashable:
        return self.kind, self.read.session_key

    def make_state(self, sentences: int, lanes: int, tokens: int, *, fixed: bool) -> CompactState:
        return CompactState(self, sentences, lanes, tokens, fixed)


class CompactState(DecoderState):
    """The state of a decoder of blocks over one of these caches."""

    def __init__(self, given: CompactInput, sentences: int, lanes: int, tokens: int, fixed: bool) -> None:
        read, rounded = given.read, round_to_stride if fixed else int
        like_SHPK = read.prompts[0][0]
        self.model, length = read.model, read.memories[0].k_BHMK.shape[2] if read.memories else 0
        self.memory = memory_of(read, sentences, rounded(length), Int8Memory if given.kind == "int8" else Memory)
        if given.kind == "window":
            assert lanes == 1
            self.ancestry: BeamAncestry = Ring(sentences, ring_size(visibility_of(read.model)), like_SHPK)
        else:
            steps = round_to_stride(tokens) if fixed else 0
            self.ancestry = BeamAncestry(sentences, lanes, rounded(like_SHPK.shape[2]), steps, like_SHPK)
        kind = RingSlots if given.kind == "window" else Int8Slots
        self.caches = [kind(self.ancestry, prompt[0]) for prompt in read.prompts]

    def load(self, read: Any, limits: Any) -> None:
        super().load(read.read, limits)


def check_cache(model: Any, kind: Cache) -> None:
    """Refuse a model that cannot be decoded with this cache."""
    if kind != "full":
        must_keep_slots(model)
    if kind == "window":
        ring_size(visibility_of(model))


class Ring(BeamAncestry):
    """Slots of the last R tokens of each sentence. `slots_W` is the one that the newest token takes: the oldest."""

    ring = True

    def __init__(self, sentences: int, size: int, like: Tensor) -> None:
        super().__init__(sentences, 1, size, 0, like)

    def restart(self, words_S: Tensor, limits_S: Tensor) -> None:
        super().restart(words_S, limits_S)
        self.slots_W.zero_()
        self.ancestors_SWN.copy_((self._places_of_prompt() >= 0)[:, None])

    def _places_of_prompt(self) -> Tensor:
        """Return the positions of the last R tokens of each prompt, oldest first; negative where it has fewer."""
        return self.words_S[:, None] + torch.arange(-self.prompt, 0, device=self.words_S.device)

    def grow(self, steps: int) -> None:
        self.steps += steps

    def end_step(self) -> None:
        super().end_step()
        self.slots_W.remainder_(self.prompt)

    def _positions_SN(self) -> Tensor:
        age_N = (self.slots_W - torch.arange(self.prompt, device=self.slots_W.device)).remainder(self.prompt)
        return (self.position_S[: self.sentences, None] - age_N).clamp(min=0)


class RingSlots(Slots):
    """Keys and values of one attention layer, of the last R tokens."""

    def restart(self, words_S: Tensor, *prompt_SHPK: Tensor) -> None:
        place_SN = words_S[:, None] + torch.arange(-self.kv_2SHNK.shape[3], 0, device=words_S.device)
        for kept_SHNK, given_SHPK in zip(self.kv_2SHNK, prompt_SHPK):
            if given_SHPK.shape[2]:
                index = place_SN.clamp(min=0)[:, None, :, None].expand(-1, given_SHPK.shape[1], -1, given_SHPK.shape[3])
                kept_SHNK[: len(given_SHPK)] = given_SHPK.gather(2, index)

    def grow(self) -> None:
        """Do nothing: the ring has its size."""


class Int8Slots:
    """Keys and values of one attention layer in 8 bits, with a scale for each head and token."""

    def __init__(self, ancestry: BeamAncestry, like_SHPK: Tensor) -> None:
        self.ancestry, self.dtype = ancestry, like_SHPK.dtype
        sentences, _, slots = ancestry.ancestors_SWN.shape
        _, heads, _, head_width = like_SHPK.shape
        self.kv_2SHNK = like_SHPK.new_zeros(2, sentences, heads, slots, head_width, dtype=torch.int8)
        self.scale_2SHN1 = like_SHPK.new_zeros(2, sentences, heads, slots, 1)

    def restart(self, words_S: Tensor, *prompt_SHPK: Tensor) -> None:
        rounded, scale = in_8_bits(torch.stack(prompt_SHPK))
        for buffer, found in ((self.kv_2SHNK, rounded), (self.scale_2SHN1, scale)):
            buffer[:, : found.shape[1], :, : found.shape[3]] = found

    def grow(self) -> None:
        if (more := self.ancestry.visible - self.kv_2SHNK.shape[3]) > 0:
            self.kv_2SHNK = F.pad(self.kv_2SHNK[:, : self.ancestry.sentences], (0, 0, 0, more))
            self.scale_2SHN1 = F.pad(self.scale_2SHN1[:, : self.ancestry.sentences], (0, 0, 0, more))

    def append(self, kv_2SHWK: Tensor) -> Tensor:
        """Write the lanes' newest token and return everything visible as numbers again."""
        rounded, scale = in_8_bits(kv_2SHWK)
        now = [buffer[:, : self.ancestry.sentences, :, : self.ancestry.visible] for buffer in (self.kv_2SHNK, self.scale_2SHN1)]
        for buffer, found in zip(now, (rounded, scale)):
            buffer.index_copy_(3, self.ancestry.slots_W, found.to(buffer.dtype))
        return now[0] * now[1]

    def select(self, parents_SW: Tensor) -> None:
        """Do nothing: only the ancestry changes."""

    def compact(self, moves: RowCompaction) -> None:
        for buffer in (self.kv_2SHNK, self.scale_2SHN1):
            for kept_SHN in buffer[:, : self.ancestry.sentences, :, : self.ancestry.visible]:
                moves.within(kept_SHN)


class Int8CrossKV(CrossKV):
    """Keys and values of the sources of one cross-attention layer in 8 bits, with a scale for each head and token."""

    def __init__(self, like: KeysValues, sentences: int, length: int) -> None:
        super().__init__(like, sentences, length)
        scales = [buffer_SHMK[..., :1].clone() for buffer_SHMK in self.buffers]
        self.buffers = [*(buffer_SHMK.to(torch.int8) for buffer_SHMK in self.buffers), *scales]

    def stored(self, memory: KeysValues) -> Sequence[Tensor]:
        (k_SHMK, k_SHM1), (v_SHMK, v_SHM1) = map(in_8_bits, memory)
        return k_SHMK, v_SHMK, k_SHM1, v_SHM1

    def first(self, sentences: int) -> KeysValues:
        k_SHMK, v_SHMK, k_SHM1, v_SHM1 = (buffer_SHM[:sentences] for buffer_SHM in self.buffers)
        return KeysValues(k_SHMK * k_SHM1, v_SHMK * v_SHM1)


class Int8Memory(Memory):
    """Encoded sources in 8 bits: each layer turns its own back into numbers when it attends."""

    layer_type = Int8CrossKV

    def make_parts(self, sentences: int) -> EachLayer:
        layers: Any = self.layers
        return EachLayer(len(layers), lambda n: layers[n].first(sentences))


def in_8_bits(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return integers and scales: x is about integer * scale, off by at most half a scale."""
    scale = x.abs().amax(-1, keepdim=True) / LARGEST
    return (x / scale.clamp(min=torch.finfo(x.dtype).tiny)).round().to(torch.int8), scale
