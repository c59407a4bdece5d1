"""The KV cache: keys and values of decoded tokens, in slots that all lanes of a sentence share.

A search keeps W hypotheses of a sentence alive, and they share most of their tokens. So the keys and values of a step are written
once, into slots of the sentence, and never moved: selecting hypotheses only changes which slots are ancestors of a lane.
This is a visibility like any other, and the W lanes are W queries of one attention. Rows move only when a sentence leaves.

The first P slots hold the prompt, which all lanes see; lane w of step t writes slot P + t W + w. The step number is a tensor,
so every step launches the same kernels; the part of the cache that they read grows in strides.

Dims: S sentences, W lanes, N slots.
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
    """A store that an attention layer appends its keys and values to."""

    def append(self, kv_2SHLK: Tensor) -> Tensor | Sums:
        """Store the newest keys and values; return everything visible: kv_2SHNK, or the sums that a mixer keeps of them."""
        ...


class LayerCache(Cache, Protocol):
    """The cache of one layer, for all lanes of all sentences."""

    def restart(self, words_S: Tensor, *prompt_SHPK: Tensor) -> None:
        """Start with prompts of words_S tokens, padded at the right: the keys and values that a `Prompt` recorded."""
        ...

    def grow(self) -> None:
        """Grow to the size of the ancestry."""
        ...

    def select(self, parents_SW: Tensor) -> None: ...

    def compact(self, moves: RowCompaction) -> None: ...


class Prompt:
    """A cache for encoding a prompt in one pass: records its keys and values."""

    def append(self, kv_2SHPK: Tensor) -> Tensor:
        self.kv_2SHPK = kv_2SHPK
        return kv_2SHPK

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Return keys and values; of a layer without keys, values alone."""
        return self.kv_2SHPK.unbind()


class BeamAncestry:
    """The slots that are ancestors of each lane, and the positions of the newest tokens. Shared by all layers."""

    def __init__(self, sentences: int, lanes: int, prompt: int, steps: int, like: Tensor, slotted: bool = True) -> None:
        """Allocate for `steps` steps at fixed addresses; with 0 steps, the buffers grow. Dtype and device are those of `like`."""
        self.lanes, self.prompt, self.fixed, self.slotted = lanes, prompt if slotted else 0, steps > 0, slotted
        self.sentences, self.steps, self.visible = sentences, 0, self.prompt  # sentences left, steps allocated, slots visible
        slots = self.prompt + lanes * steps if slotted else 0
        self.ancestors_SWN = torch.zeros(sentences, lanes, slots, dtype=torch.bool, device=like.device)
        self.words_S, self.position_S, self.last_S = (like.new_zeros(sentences, dtype=torch.long) for _ in range(3))
        self.slots_W = like.new_zeros(lanes, dtype=torch.long)
        self.own_WW = torch.eye(lanes, dtype=torch.bool, device=like.device)
        self.seen, self.hidden = like.new_zeros(()), like.new_full((), -torch.inf)

    def restart(self, words_S: Tensor, limits_S: Tensor) -> None:
        """Start after prompts of words_S tokens, for at most limits_S steps."""
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
        """Return the positions of the newest tokens. A finished sentence that waits for compaction stays within its limit."""
        position_S = torch.minimum(self.position_S, self.last_S)[: self.sentences]
        return position_S[:, None].expand(-1, self.lanes)

    def begin_step(self) -> None:
        if self.slotted:
            self.now_SWN.index_copy_(2, self.slots_W, self.own_WW.expand(self.sentences, -1, -1))

    def end_step(self) -> None:
        self.slots_W.add_(self.lanes)
        self.position_S.add_(1)

    def view(self, visibility: Visibility) -> View:
        """Return the view of each lane's newest token: its ancestors, as far as the model's visibility pattern allows."""
        sees_SWN = self.now_SWN
        if not isinstance(visibility, (Full, Causal)):
            b = h = self.slots_W.new_zeros(1)
            i_S11 = self.position_S[: self.sentences, None, None]
            sees_SWN = sees_SWN & visibility.sees(b, h, i_S11, self._positions_SN()[:, None])
        # On a GPU the mask is turned here, once for all layers, into numbers that are added to scores.
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
    """Keys and values of one attention layer, in one tensor: a step writes both with one kernel."""

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
        """Do nothing: only the ancestry changes."""

    def compact(self, moves: RowCompaction) -> None:
        for kept_SHNK in self.now_2SHNK:
            moves.within(kept_SHNK)
