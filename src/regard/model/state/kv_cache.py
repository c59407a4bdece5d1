"""The caches of a layer: keys and values of decoded tokens, in slots that all lanes share; or a state of constant size.

A search keeps W hypotheses of a sentence alive, and they share most of their tokens. So the keys and values of a step are written
once, into slots of the sentence, and never moved: selecting hypotheses only changes which slots are ancestors of a lane.
This is a visibility like any other, and the W lanes are W queries of one attention. Rows move only when a sentence leaves.

The first P slots hold the prompt, which all lanes see; lane w of step t writes slot P + t W + w. The step number is a tensor,
so every step launches the same kernels; the part of the cache that they read grows in strides.

Of constant size are the running sums of linear attention and the last inputs of a convolution. Attention by features is a
recurrent network (Katharopoulos et al. 2020): a new token adds its key and value to running sums, and its query is multiplied
with these sums. A convolution reads its last few inputs. The lanes of a sentence share neither, so both are copied from lane to
lane when a search selects parents.

Dims: S sentences, W lanes, N slots, H heads, F features, K head width, P prompt length, T tokens that a convolution looks back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.mixers.causal_scan import NOTHING, RecurrentForm, Sums, joined
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

    ring = False  # does the newest token take the slot of the oldest?

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
        mask_SWN = torch.where(sees_SWN, self.seen, self.hidden)  # once for all layers: numbers that are added to scores
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


class RunningSums:
    """Running sums of keys and values of one attention layer, one for each lane."""

    def __init__(self, mixer: RecurrentForm, ancestry: BeamAncestry, like_SHPK: Tensor) -> None:
        self.mixer, self.ancestry = mixer, ancestry
        self.buffers = _nothing(mixer, like_SHPK, len(ancestry.position_S), like_SHPK.shape[1], ancestry.lanes)

    @property
    def now(self) -> Sums:
        return Sums(*(buffer_S[: self.ancestry.sentences] for buffer_S in self.buffers))

    def restart(self, words_S: Tensor, *prompt_SHPK: Tensor) -> None:
        k_SHPK, v_SHPK = prompt_SHPK
        for buffer_S, nothing in zip(self.buffers, (0.0, 0.0, NOTHING)):
            buffer_S.fill_(nothing)
        if k_SHPK.shape[2]:
            for buffer_SHW, read_SH in zip(self.buffers, self.mixer.update(k_SHPK, v_SHPK, words_S)):
                buffer_SHW[: len(words_S)] = read_SH.unsqueeze(2)

    def grow(self) -> None:
        pass

    def append(self, kv_2SHWK: Tensor) -> Sums:
        """Add the newest key and value of every lane; return the sums, [S, H, W, ...]."""
        k_SHW1K, v_SHW1K = kv_2SHWK[..., None, :]
        now = self.now
        for buffer_S, added_S in zip(now, joined(now, self.mixer.update(k_SHW1K, v_SHW1K))):
            buffer_S.copy_(added_S)
        return now

    def select(self, parents_SW: Tensor) -> None:
        for buffer_SHW in self.now:
            buffer_SHW.copy_(_lanes(buffer_SHW, parents_SW))

    def compact(self, moves: RowCompaction) -> None:
        for buffer_S in self.now:
            moves.within(buffer_S)


class CrossSums:
    """Sums of keys and values of a source, for cross-attention by features: computed once, of a size that no length changes."""

    def __init__(self, mixer: RecurrentForm, like_SHMK: Tensor, sentences: int) -> None:
        self.mixer = mixer
        self.buffers = _nothing(mixer, like_SHMK, sentences, like_SHMK.shape[1])

    def load(self, memory: Sequence[Tensor], words_S: Tensor) -> None:
        k_SHMK, v_SHMK = memory
        for buffer_S, nothing, read_S in zip(self.buffers, (0.0, 0.0, NOTHING), self.mixer.update(k_SHMK, v_SHMK, words_S)):
            buffer_S.fill_(nothing)[: len(words_S)] = read_S

    def compact(self, moves: RowCompaction) -> None:
        for buffer_S in self.buffers:
            moves.within(buffer_S)

    def first(self, sentences: int) -> Sums:
        return Sums(*(buffer_S[:sentences] for buffer_S in self.buffers))


class ConvState:
    """The last T inputs of a convolution, the newest last; zeros stand before the first token of a text."""

    def __init__(self, tokens: int, ancestry: BeamAncestry, like_SHPK: Tensor) -> None:
        self.ancestry = ancestry
        _, heads, _, head_width = like_SHPK.shape
        self.values_SHWTK = like_SHPK.new_zeros(len(ancestry.position_S), heads, ancestry.lanes, tokens, head_width)

    @property
    def now_SHWTK(self) -> Tensor:
        return self.values_SHWTK[: self.ancestry.sentences]

    def restart(self, words_S: Tensor, *prompt_SHPK: Tensor) -> None:
        (v_SHPK,), tokens = prompt_SHPK, self.values_SHWTK.shape[3]
        self.values_SHWTK.zero_()
        if v_SHPK.shape[2] and tokens:
            place_ST = words_S[:, None] + torch.arange(-tokens, 0, device=words_S.device)
            index_SHTK = place_ST.clamp(min=0)[:, None, :, None].expand(-1, v_SHPK.shape[1], -1, v_SHPK.shape[3])
            last_SHTK = v_SHPK.gather(2, index_SHTK).masked_fill((place_ST < 0)[:, None, :, None], 0.0)
            self.values_SHWTK[: len(words_S)] = last_SHTK[:, :, None]

    def grow(self) -> None:
        pass

    def append(self, v_1SHWK: Tensor) -> Tensor:
        """Append the newest value; return all T + 1 values under the kernel, the newest last."""
        seen_SHWTK = torch.cat([self.now_SHWTK, v_1SHWK[0][..., None, :].to(self.values_SHWTK)], 3)
        self.now_SHWTK.copy_(seen_SHWTK[:, :, :, 1:])
        return seen_SHWTK

    def select(self, parents_SW: Tensor) -> None:
        self.now_SHWTK.copy_(_lanes(self.now_SHWTK, parents_SW))

    def compact(self, moves: RowCompaction) -> None:
        moves.within(self.now_SHWTK)


def _nothing(mixer: RecurrentForm, like: Tensor, *shape: int) -> Sums:
    features, head_width = mixer.features.count(like.shape[3]), like.shape[3]
    total_F = torch.zeros(*shape, features, dtype=torch.promote_types(like.dtype, torch.float32), device=like.device)
    return Sums(total_F.new_zeros(*shape, features, head_width), total_F, total_F.new_full(shape, NOTHING))


def _lanes(buffer_SHW: Tensor, parents_SW: Tensor) -> Tensor:
    index = parents_SW[(slice(None), None, slice(None), *(None,) * (buffer_SHW.dim() - 3))]
    return buffer_SHW.gather(2, index.expand_as(buffer_SHW))
