"""Multi-head attention and the one seam that every attention of every family passes through.

Vaswani et al. 2017, section 3.2.2: concat(head_1 .. head_H) W_O, head_i = attention(Q W_i^Q, K W_i^K, V W_i^V). What is
projected from the same vectors shares a matrix: queries, keys and values in self-attention; keys and values in cross-attention,
whose queries come from elsewhere. The number of heads does not change the size: H heads of K = D / H.

Dims: B batch, L query length, M memory length, D width, E twice the width, H heads, K head width.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from regard.model.cache import Cache
from regard.model.linear import Linear
from regard.model.mixers import MIXERS, Mixer
from regard.model.probe import Probe, Seen
from regard.model.visibility import View


def attend(
    looking: Probe | None, name: str, mixer: Mixer, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float
) -> Tensor:
    """The seam: the kernel runs whether or not somebody looks; a probe keeps references and may gate heads."""
    context_BHLK = mixer.mix(q_BHLK, k_BHMK, v_BHMK, view, dropout)
    if looking is not None:
        if looking.recording:
            looking.seen[name] = Seen(mixer, q_BHLK, k_BHMK, v_BHMK, view)
        if (gate_H := looking.gates.get(name)) is not None:
            context_BHLK = context_BHLK * gate_H.to(context_BHLK)[:, None, None]
    return context_BHLK


class KeysValues(NamedTuple):
    k_BHMK: Tensor
    v_BHMK: Tensor


class Attention(nn.Module):
    """Self-attention, or with `cross` attention from x to a memory."""

    def __init__(self, width: int, heads: int, *, mixer: str, dropout: float, name: str, cross: bool = False) -> None:
        super().__init__()
        self.name, self.width, self.heads = name, width, heads
        self.mixer = MIXERS[mixer]
        self.dropout = dropout
        self.query = Linear(width, width) if cross else None
        self.project = Linear(width, (2 if cross else 3) * width)
        self.out = Linear(width, width)
        self.probe: Probe | None = None

    def forward(self, x_BLD: Tensor, view: View, memory: KeysValues | None = None, cache: Cache | None = None) -> Tensor:
        if self.query is not None:
            assert memory is not None
            q_BHLK = self._split(self.query(x_BLD))
            k_BHMK, v_BHMK = memory
        else:
            q_BLD, kv_BLE = self.project(x_BLD).split([self.width, 2 * self.width], -1)
            q_BHLK, kv_2BHLK = self._split(q_BLD), kv_BLE.unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
            k_BHMK, v_BHMK = kv_2BHLK if cache is None else cache.append(kv_2BHLK)
        dropout = self.dropout if self.training else 0.0
        context_BHLK = attend(self.probe, self.name, self.mixer, q_BHLK, k_BHMK, v_BHMK, view, dropout)
        return self.out(context_BHLK.transpose(1, 2).flatten(2))

    def remember(self, memory_BMD: Tensor) -> KeysValues:
        """Keys and values of a memory: once per pass in training, once per sentence in decoding."""
        return KeysValues(*map(self._split, self.project(memory_BMD).split(self.width, -1)))

    def _split(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.unflatten(-1, (self.heads, -1)).transpose(1, 2)
