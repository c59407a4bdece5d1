"""Decoding states of constant size: running sums of linear attention, and the last inputs of a convolution.

Attention by features is a recurrent network (Katharopoulos et al. 2020): a new token adds its key and value to running sums, and
its query is multiplied with these sums. A convolution reads its last few inputs. The lanes of a sentence share neither, so both
are copied from lane to lane when a search selects parents.

Dims: S sentences, W lanes, H heads, F features, K head width, P prompt length, T tokens that a convolution looks back.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.model.mixers.causal_scan import NOTHING, RecurrentForm, Sums, joined
from regard.model.state.kv_cache import BeamAncestry
from regard.model.state.protocol import RowCompaction


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
