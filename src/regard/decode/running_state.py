"""States whose sentences join and leave between steps, each with positions and slots of its own.

`DecoderState` has one clock: all its sentences begin together, and a step writes the same slots of each. Here every sentence
has its own. Its prompt has the slots from 0, and its steps the slots behind it: lane w of step t writes slot p + t W + w after a
prompt of p tokens. So a sentence takes no more slots than alone, and the attention of a step reads as many slots as the longest
sentence has now. What stands in other slots is hidden.

A sentence joins from a state of its own, freshly loaded: its rows are copied behind the others. A row that is taken again is
cleared first, since hidden slots still count in sums as 0 times what they hold, and a former sentence may have left NaN there.

Dims: S sentences, W lanes, R rows that join, N slots, M memory length.
"""

from __future__ import annotations

from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.model.attention import KeysValues
from regard.model.mixers.causal_scan import Sums
from regard.model.recurrent.decoders import Turns
from regard.model.state.decoder import CrossKV, DecoderState, Memory
from regard.model.state.kv_cache import BeamAncestry, ConvState, RunningSums, Slots, round_to_stride
from regard.model.state.protocol import RowCompaction, State
from regard.model.state.recurrent import RecurrentDecoderState

HIDDEN = -1  # turn of a place without a word


class RunningState(State, Protocol):
    """A state that others join."""

    @property
    def sentences(self) -> int: ...

    def join(self, fresh: Any) -> None:
        """Add the sentences of a state that has been loaded and has taken no step, behind those that are here."""
        ...

    def row_bytes(self, slots: int, places: int) -> int:
        """Return the memory of one row with room for so many slots, and places of a source."""
        ...


def running_state(fresh: State) -> RunningState:
    """Return an empty state for sentences as this one has."""
    if type(fresh) is DecoderState and all(isinstance(cache, Slots | RunningSums | ConvState) for cache in fresh.caches):
        return RunningDecoderState(fresh)
    if type(fresh) is RecurrentDecoderState:
        return RunningRecurrentState(fresh)
    raise UserError(
        f"texts of this model cannot join others while those are written, since {type(fresh).__name__} keeps no row for each; "
        "leave decode.cache out, or use regard predict."
    )


def enlarged(buffer: Tensor, *sizes: int, fill: float = 0) -> Tensor:
    """Return the buffer, or a copy that has at least these sizes."""
    shape = [max(pair) for pair in zip(buffer.shape, sizes)] + list(buffer.shape[len(sizes) :])
    if list(buffer.shape) == shape:
        return buffer
    larger = buffer.new_full(shape, fill)
    larger[tuple(slice(size) for size in buffer.shape)] = buffer
    return larger


def bytes_of(buffer: Tensor, *without: int) -> int:
    """Return the memory of a buffer that has the size 1 in these dimensions."""
    return buffer.element_size() * prod(size for n, size in enumerate(buffer.shape) if n not in without)


def joined(buffer_S: Tensor, part_R: Tensor, at: int, fill: float = 0) -> Tensor:
    """Return the buffer with these rows from row `at` on, larger where it has to be: in rows by doubling."""
    rows = at + len(part_R)
    capacity = len(buffer_S) if rows <= len(buffer_S) else 1 << (rows - 1).bit_length()
    buffer_S = enlarged(buffer_S, capacity, *part_R.shape[1:], fill=fill)
    buffer_S[at:rows] = fill
    buffer_S[(slice(at, rows), *(slice(size) for size in part_R.shape[1:]))] = part_R
    return buffer_S


class OwnSlots(BeamAncestry):
    """The slots that are ancestors of each lane; every sentence writes the slots behind its own text."""

    def __init__(self, fresh: BeamAncestry) -> None:
        super().__init__(0, fresh.lanes, 0, 0, fresh.seen, fresh.slotted)
        self.fixed = True  # selected lanes are copied into the same buffer
        self.slots_SW = self.slots_W.new_zeros(0, fresh.lanes)
        self.used: list[int] = []  # slots of each sentence

    def join(self, fresh: BeamAncestry) -> None:
        at, words_S = self.sentences, fresh.words_S
        self.words_S, self.position_S = joined(self.words_S, words_S, at), joined(self.position_S, fresh.position_S, at)
        self.last_S = joined(self.last_S, fresh.last_S, at)
        self.slots_SW = joined(self.slots_SW, words_S[:, None] + torch.arange(self.lanes, device=words_S.device), at)
        self.ancestors_SWN = joined(self.ancestors_SWN, fresh.ancestors_SWN[:, :, : fresh.prompt], at)
        self.used += words_S.tolist()
        self.sentences += len(words_S)

    def grow(self, steps: int) -> None:
        if self.slotted:
            self.visible = round_to_stride(max(self.used) + self.lanes * steps)
            self.ancestors_SWN = enlarged(self.ancestors_SWN, 0, 0, self.visible)

    @property
    def now_slots_SW(self) -> Tensor:
        return self.slots_SW[: self.sentences]

    def begin_step(self) -> None:
        if self.slotted:
            index_SWW = self.now_slots_SW[:, None].expand(-1, self.lanes, -1)
            self.now_SWN.scatter_(2, index_SWW, self.own_WW.expand(self.sentences, -1, -1))

    def end_step(self) -> None:
        self.now_slots_SW.add_(self.lanes)
        self.position_S[: self.sentences].add_(1)
        self.used = [used + self.lanes for used in self.used]

    def _positions_SN(self) -> Tensor:
        words_S1, slots_N = self.words_S[: self.sentences, None], torch.arange(self.visible, device=self.words_S.device)
        return torch.where(slots_N < words_S1, slots_N, words_S1 + (slots_N - words_S1) // self.lanes)

    def compact(self, moves: RowCompaction) -> None:
        super().compact(moves)
        moves.within(self.slots_SW)
        for place, row in zip(moves.places_R.tolist(), moves.rows_R.tolist()):
            self.used[place] = self.used[row]
        del self.used[moves.stay :]


class RowSlots:
    """Keys and values of one attention layer, in slots of each sentence's own."""

    def __init__(self, ancestry: OwnSlots, fresh: Slots) -> None:
        _, _, heads, _, head_width = fresh.kv_2SHNK.shape
        self.ancestry = ancestry
        self.kept = [fresh.kv_2SHNK.new_zeros(0, heads, 0, head_width) for _ in range(2)]

    def join(self, fresh: Slots, at: int) -> None:
        prompt = fresh.ancestry.prompt
        self.kept = [joined(kept_S, new_S[:, :, :prompt], at) for kept_S, new_S in zip(self.kept, fresh.kv_2SHNK)]

    def grow(self) -> None:
        self.kept = [enlarged(kept_SHNK, 0, 0, self.ancestry.visible) for kept_SHNK in self.kept]

    def append(self, kv_2SHWK: Tensor) -> list[Tensor]:
        """Write the lanes' newest token and return everything visible."""
        slots_SW, sentences = self.ancestry.now_slots_SW, self.ancestry.sentences
        rows_S1 = torch.arange(sentences, device=slots_SW.device)[:, None]
        now = [kept_SHNK[:sentences, :, : self.ancestry.visible] for kept_SHNK in self.kept]
        for now_SHNK, new_SHWK in zip(now, kv_2SHWK):
            now_SHNK.transpose(1, 2).index_put_((rows_S1, slots_SW), new_SHWK.transpose(1, 2).to(now_SHNK.dtype))
        return now

    def row_bytes(self, slots: int) -> int:
        return slots * sum(bytes_of(kept_SHNK, 0, 2) for kept_SHNK in self.kept)

    def select(self, parents_SW: Tensor) -> None:
        """Do nothing: only the ancestry changes."""

    def compact(self, moves: RowCompaction) -> None:
        for kept_SHNK in self.kept:
            moves.within(kept_SHNK[:, :, : self.ancestry.visible])


class LaneSums(RunningSums):
    """Running sums of keys and values, of sentences that join."""

    def __init__(self, ancestry: OwnSlots, fresh: RunningSums) -> None:
        self.mixer, self.ancestry = fresh.mixer, ancestry
        self.buffers = Sums(*(buffer_S[:0] for buffer_S in fresh.buffers))

    def join(self, fresh: RunningSums, at: int) -> None:
        self.buffers = Sums(*(joined(buffer_S, new_R, at) for buffer_S, new_R in zip(self.buffers, fresh.buffers)))

    def row_bytes(self, slots: int) -> int:
        return sum(bytes_of(buffer_S, 0) for buffer_S in self.buffers)


class LaneInputs(ConvState):
    """The last inputs of a convolution, of sentences that join."""

    def __init__(self, ancestry: OwnSlots, fresh: ConvState) -> None:
        self.ancestry, self.values_SHWTK = ancestry, fresh.values_SHWTK[:0]

    def join(self, fresh: ConvState, at: int) -> None:
        self.values_SHWTK = joined(self.values_SHWTK, fresh.values_SHWTK, at)

    def row_bytes(self, slots: int) -> int:
        return bytes_of(self.values_SHWTK, 0)


class RunningMemory(Memory):
    """Encoded sources of sentences that join; attention reads as many places as the longest source has."""

    def __init__(self, fresh: Memory) -> None:
        self.layers, self.kept = fresh.layers, [[buffer_S[:0] for buffer_S in layer.buffers] for layer in fresh.layers]
        self.words_S, self.mask_S11M = fresh.words_S[:0], fresh.mask_S11M[:0]
        self.lengths: list[int] = []

    def join(self, fresh: Memory) -> None:
        at = len(self.lengths)
        self.kept = [
            [joined(buffer_S, new_R, at) for buffer_S, new_R in zip(kept, layer.buffers)]
            for kept, layer in zip(self.kept, fresh.layers)
        ]
        self.words_S = joined(self.words_S, fresh.words_S, at)
        self.mask_S11M = joined(self.mask_S11M, fresh.mask_S11M, at, fill=-torch.inf)
        self.lengths += fresh.words_S.tolist()
        self._set_view(len(self.lengths))

    def compact(self, moves: RowCompaction) -> None:
        for buffer_S in (*(buffer_S for kept in self.kept for buffer_S in kept), self.words_S, self.mask_S11M):
            moves.within(buffer_S)
        for place, row in zip(moves.places_R.tolist(), moves.rows_R.tolist()):
            self.lengths[place] = self.lengths[row]
        del self.lengths[moves.stay :]
        if self.lengths:
            self._set_view(moves.stay)

    def row_bytes(self, places: int) -> int:
        """Return the memory of one row; a mask and keys and values grow with the places of the source."""
        masks = places * self.mask_S11M.element_size()
        return masks + sum(
            places * bytes_of(buffer_S, 0, 2) if isinstance(layer, CrossKV) else bytes_of(buffer_S, 0)
            for layer, kept in zip(self.layers, self.kept)
            for buffer_S in kept
        )

    def _set_view(self, sentences: int) -> None:
        self.longest = max(self.lengths)
        self.parts = self.make_parts(sentences)
        self.view = self.view_of(self.words_S[:sentences], self.mask_S11M[:sentences, :, :, : self.longest])

    def make_parts(self, sentences: int) -> list[KeysValues | Sums]:
        return [
            KeysValues(*(buffer_SHMK[:sentences, :, : self.longest] for buffer_SHMK in kept))
            if isinstance(layer, CrossKV)
            else Sums(*(buffer_S[:sentences] for buffer_S in kept))
            for layer, kept in zip(self.layers, self.kept)
        ]


class RunningDecoderState(DecoderState):
    """The state of a decoder made of blocks, whose sentences join and leave."""

    def __init__(self, fresh: DecoderState) -> None:
        self.model = fresh.model
        self.own: OwnSlots = OwnSlots(fresh.ancestry)
        self.ancestry = self.own
        self.caches: list[Any] = [KINDS[type(cache)](self.own, cache) for cache in fresh.caches]
        self.memory = RunningMemory(fresh.memory) if fresh.memory else None

    @property
    def sentences(self) -> int:
        return self.ancestry.sentences

    def join(self, fresh: DecoderState) -> None:
        for cache, new in zip(self.caches, fresh.caches):
            cache.join(new, self.ancestry.sentences)
        if isinstance(self.memory, RunningMemory) and fresh.memory:
            self.memory.join(fresh.memory)
        self.own.join(fresh.ancestry)

    def row_bytes(self, slots: int, places: int) -> int:
        seen = slots * self.own.lanes * (1 + self.own.seen.element_size()) if self.own.slotted else 0
        memory = self.memory.row_bytes(places) if isinstance(self.memory, RunningMemory) else 0
        return seen + memory + sum(cache.row_bytes(slots) for cache in self.caches)


KINDS: dict[type, Any] = {Slots: RowSlots, RunningSums: LaneSums, ConvState: LaneInputs}


class RunningRecurrentState(RecurrentDecoderState):
    """Hidden vectors of sentences that join and leave, and the sources that they attend to."""

    def __init__(self, fresh: RecurrentDecoderState) -> None:
        self.model, self.lanes, self.sentences = fresh.model, fresh.lanes, 0
        self.carried_SWNPD, self.fed_SWD, self.position_S1 = fresh.carried_SWNPD[:0], fresh.fed_SWD[:0], fresh.position_S1[:0]
        self.memory = RunningMemory(fresh.memory) if fresh.memory else None
        self.kept_turns = fresh.turns and Turns(fresh.turns.of_SM[:0], 0, 0)
        self.turns = self.kept_turns

    def join(self, fresh: RecurrentDecoderState) -> None:
        at = self.sentences
        self.sentences += len(fresh.carried_SWNPD)
        self.carried_SWNPD = joined(self.carried_SWNPD, fresh.carried_SWNPD, at)
        self.fed_SWD = joined(self.fed_SWD, fresh.fed_SWD, at)
        self.position_S1 = joined(self.position_S1, fresh.position_S1, at)
        if isinstance(self.memory, RunningMemory) and fresh.memory:
            self.memory.join(fresh.memory)
        if self.kept_turns and fresh.turns:
            (of_SM, most, longest), new = self.kept_turns, fresh.turns
            of_SM = joined(of_SM, new.of_SM, at, fill=HIDDEN)
            self.kept_turns = Turns(of_SM, max(most, new.most), max(longest, new.longest))
            self._narrow_turns()

    def row_bytes(self, slots: int, places: int) -> int:
        own = bytes_of(self.carried_SWNPD, 0) + bytes_of(self.fed_SWD, 0)
        return own + (self.memory.row_bytes(places) if isinstance(self.memory, RunningMemory) else 0)

    def compact(self, moves: RowCompaction) -> None:
        self.turns = self.kept_turns
        super().compact(moves)
        if self.sentences:
            self._narrow_turns()

    def _narrow_turns(self) -> None:
        """Show as many places of the sources as their memory does."""
        if self.kept_turns and isinstance(self.memory, RunningMemory):
            self.turns = self.kept_turns._replace(of_SM=self.kept_turns.of_SM[:, : self.memory.longest])
