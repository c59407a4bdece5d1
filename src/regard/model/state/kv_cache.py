"""Keys and values kept between decoding steps, in slots that all lanes of a sentence share.

A search keeps W hypotheses of a sentence alive, and they share most of their past. So what a step computes is written once,
into a slot that belongs to the sentence, and never moved: choosing hypotheses only changes which slots a lane descends from.
That is a visibility like any other, and the W lanes are W queries of one attention. Nothing moves until a sentence leaves.

The first P slots hold the prompt, which all lanes see; lane w of step t writes slot P + t W + w. Which step it is a tensor knows,
so every step does the same; the part that kernels look at grows in strides. Dims: S sentences, W lanes, N slots.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.mixers.causal_scan import Sums
from regard.model.state.protocol import RowCompaction
from regard.model.visibility import Causal, Full, View, Visibility, given

STRIDE = 16  # tokens for which the visible part keeps its size, at least


def round_to_stride(count: int) -> int:
    """Rounded up to a multiple of 16, beyond 128 to one of four sizes an octave: few sizes, and at most a quarter too large."""
    stride = max(STRIDE, 1 << max(0, (count - 1).bit_length() - 3))
    return -(-count // stride) * stride


class Cache(Protocol):
    def append(self, kv_2SHLK: Tensor) -> Tensor | Sums:
        """Take the newest keys and values; return all that may be looked at: kv_2SHNK, or what a mixer has made of them."""
        ...


class LayerCache(Cache, Protocol):
    """The past of one layer, for all lanes of all sentences."""

    def restart(self, words_S: Tensor, *prompt_SHPK: Tensor) -> None:
        """Begin with prompts, padded at the right, of so many words; with all that `append` was given of them."""
        ...

    def grow(self) -> None:
        """Make the room that the ancestry has made."""
        ...

    def select(self, parents_SW: Tensor) -> None: ...

    def compact(self, moves: RowCompaction) -> None: ...


class Prompt:
    """Stands in for a cache while a prompt is read in one pass, and keeps its keys and values."""

    def append(self, kv_2SHPK: Tensor) -> Tensor:
        self.kv_2SHPK = kv_2SHPK
        return kv_2SHPK

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Keys and values; of a layer without keys, values alone."""
        return self.kv_2SHPK.unbind()


class BeamAncestry:
    """Which slots each lane descends from, and where in its text it stands. One for all layers; where none has slots, of none."""

    def __init__(self, sentences: int, lanes: int, prompt: int, steps: int, like: Tensor, slotted: bool = True) -> None:
        """Room for so many steps, and it stays in place; where none are named, it grows. Types and device are those of `like`."""
        self.lanes, self.prompt, self.fixed, self.slotted = lanes, prompt if slotted else 0, steps > 0, slotted
        self.sentences, self.steps, self.visible = sentences, 0, self.prompt  # still decoded, reserved, looked at
        slots = self.prompt + lanes * steps if slotted else 0
        self.ancestors_SWN = torch.zeros(sentences, lanes, slots, dtype=torch.bool, device=like.device)
        self.words_S, self.position_S, self.last_S = (like.new_zeros(sentences, dtype=torch.long) for _ in range(3))
        self.slots_W = like.new_zeros(lanes, dtype=torch.long)
        self.own_WW = torch.eye(lanes, dtype=torch.bool, device=like.device)
        self.seen, self.hidden = like.new_zeros(()), like.new_full((), -torch.inf)

    def restart(self, words_S: Tensor, limits_S: Tensor) -> None:
        """Of each prompt, so many words; after it, so many steps at most."""
        for whole_S, given_S in ((self.words_S, words_S), (self.last_S, words_S + limits_S - 1)):
            whole_S.zero_()[: len(given_S)] = given_S
        self.position_S.copy_(self.words_S)
        self.slots_W.copy_(torch.arange(self.prompt, self.prompt + self.lanes))
        self.sentences, self.steps, self.visible = len(self.words_S), 0, self.prompt
        in_prompt = torch.arange(self.prompt, device=words_S.device) < self.words_S[:, None, None]
        self.ancestors_SWN.zero_()[:, :, : self.prompt] = in_prompt

    def grow(self, steps: int) -> None:
        self.steps += steps
        if not self.slotted:
            return
        self.visible = self.prompt + self.lanes * round_to_stride(self.steps)
        if (more := self.visible - self.ancestors_SWN.shape[2]) > 0:
            self.ancestors_SWN = F.pad(self.ancestors_SWN[: self.sentences], (0, more))

    @property
    def now_SWN(self) -> Tensor:
        return self.ancestors_SWN[: self.sentences, :, : self.visible]

    @property
    def positions_SW(self) -> Tensor:
        """Where the newest tokens stand. A sentence that is done, and only waits to leave, stays within its limit."""
        position_S = torch.minimum(self.position_S, self.last_S)[: self.sentences]
        return position_S[:, None].expand(-1, self.lanes)

    def begin_step(self) -> None:
        if self.slotted:
            self.now_SWN.index_copy_(2, self.slots_W, self.own_WW.expand(self.sentences, -1, -1))

    def end_step(self) -> None:
        self.slots_W.add_(self.lanes)
        self.position_S.add_(1)

    def view(self, visibility: Visibility) -> View:
        """What the newest token of each lane sees: its ancestors, where the model's own pattern lets it."""
        sees_SWN = self.now_SWN
        if not isinstance(visibility, (Full, Causal)):
            b = h = self.slots_W.new_zeros(1)
            i_S11 = self.position_S[: self.sentences, None, None]
            sees_SWN = sees_SWN & visibility.sees(b, h, i_S11, self._positions_SN()[:, None])
        # On a GPU the mask becomes what is added to scores, here, once for all layers.
        mask_SWN = torch.where(sees_SWN, self.seen, self.hidden) if sees_SWN.is_cuda else sees_SWN
        sentences, lanes, slots = sees_SWN.shape
        view = View(given(sees_SWN), sentences, lanes, slots, 0, sees_SWN.device, mask_SWN[:, None])
        return replace(view, places=lambda: (self.positions_SW, self._positions_SN()))

    def _positions_SN(self) -> Tensor:
        slots_N = torch.arange(self.visible, device=self.slots_W.device)
        written_SN = self.words_S[: self.sentences, None] + (slots_N - self.prompt) // self.lanes
        return torch.where(slots_N < self.prompt, slots_N, written_SN)

    def select(self, parents_SW: Tensor) -> None:
        selected_SWN = self.now_SWN.gather(1, parents_SW[..., None].expand(-1, -1, self.visible))
        if self.fixed:
            self.now_SWN.copy_(selected_SWN)
        else:
            self.ancestors_SWN = selected_SWN

    def compact(self, moves: RowCompaction) -> None:
        for buffer_S in (self.now_SWN, self.words_S, self.position_S, self.last_S):
            moves.within(buffer_S)
        self.sentences = moves.stay


class Slots:
    """One attention's keys and values, side by side: a step writes both by one kernel."""

    def __init__(self, ancestry: BeamAncestry, like_SHPK: Tensor) -> None:
        self.ancestry = ancestry
        sentences, _, slots = ancestry.ancestors_SWN.shape
        _, heads, _, head_width = like_SHPK.shape
        self.kv_2SHNK = like_SHPK.new_zeros(2, sentences, heads, slots, head_width)

    def restart(self, words_S: Tensor, *prompt_SHPK: Tensor) -> None:
        for kept_SHNK, given_SHPK in zip(self.kv_2SHNK, prompt_SHPK):
            kept_SHNK[: len(given_SHPK), :, : given_SHPK.shape[2]] = given_SHPK

    def grow(self) -> None:
        if (more := self.ancestry.visible - self.kv_2SHNK.shape[3]) > 0:
            self.kv_2SHNK = F.pad(self.kv_2SHNK[:, : self.ancestry.sentences], (0, 0, 0, more))

    @property
    def now_2SHNK(self) -> Tensor:
        return self.kv_2SHNK[:, : self.ancestry.sentences, :, : self.ancestry.visible]

    def append(self, kv_2SHWK: Tensor) -> Tensor:
        """Write the lanes' newest token and return everything visible."""
        return self.now_2SHNK.index_copy_(3, self.ancestry.slots_W, kv_2SHWK.to(self.kv_2SHNK.dtype))

    def select(self, parents_SW: Tensor) -> None:
        """Nothing moves: the ancestry knows."""

    def compact(self, moves: RowCompaction) -> None:
        for kept_SHNK in self.now_2SHNK:
            moves.within(kept_SHNK)
