"""Multi-head attention and the one seam that every attention of every family passes through.

Vaswani et al. 2017, section 3.2.2: concat(head_1 .. head_H) W_O, head_i = attention(Q W_i^Q, K W_i^K, V W_i^V). What is
projected from the same vectors shares a matrix: queries, keys and values in self-attention; keys and values in cross-attention,
whose queries come from elsewhere. The number of heads does not change the size: H heads of K = D / H. Heads that were pruned are
gone from every matrix; those that stay keep their width.

Dims: B batch, L query length, M memory length, D width, H heads, K head width, I = H K all heads side by side, E twice that.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from regard.model.linear import Linear
from regard.model.mixers import Mixer
from regard.model.mixers.causal_scan import Sums
from regard.model.probe import Probe, Seen
from regard.model.state.constant import RunningSums
from regard.model.state.kv_cache import BeamAncestry, Cache, LayerCache, Slots
from regard.model.visibility import View


def attend(
    looking: Probe | None, name: str, mixer: Mixer, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float
) -> Tensor:
    """The seam: the kernel runs whether or not somebody looks; a probe keeps references and may gate heads."""
    context_BHLK = mixer.mix(q_BHLK, k_BHMK, v_BHMK, view, dropout)
    if looking is not None and looking.recording:
        looking.seen[name] = Seen(mixer, q_BHLK, k_BHMK, v_BHMK, view)
    return gated(looking, name, context_BHLK)


def gated(looking: Probe | None, name: str, context_BHLK: Tensor) -> Tensor:
    """With every head as open as the probe has its gate: for all sequences alike, or for each of them."""
    if looking is None or (gate := looking.gates.get(name)) is None:
        return context_BHLK
    gate = gate.to(context_BHLK)
    if gate.dim() == 2 and len(gate) > 1:
        rows = looking.rows
        sequences = len(context_BHLK) // rows if isinstance(rows, int) else len(rows)
        if len(gate) != sequences:
            raise ValueError(f"the gate of {name} has {len(gate)} rows; it needs one, or one for each of {sequences} sequences")
        gate = gate.repeat_interleave(rows, 0)
    return context_BHLK * gate[..., None, None]


class KeysValues(NamedTuple):
    k_BHMK: Tensor
    v_BHMK: Tensor


class Attention(nn.Module):
    """Self-attention, or with `cross` attention from x to a memory. `heads` are those left of as many as fill the width."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        mixer: Mixer,
        dropout: float,
        name: str,
        cross: bool = False,
        head_width: int | None = None,
    ) -> None:
        super().__init__()
        self.name, self.width, self.heads, self.head_width = name, width, heads, head_width or width // heads
        self.mixer = mixer
        self.dropout = dropout
        self.query = Linear(width, self.inner) if cross else None
        self.project = Linear(width, (2 if cross else 3) * self.inner)
        self.out = Linear(self.inner, width)
        self.probe: Probe | None = None

    def extra_repr(self) -> str:
        return f"D={self.width} as H={self.heads} x K={self.head_width}"

    @property
    def inner(self) -> int:
        """The width of all heads side by side: that of the model, until heads are pruned."""
        return self.heads * self.head_width

    def forward(self, x_BLD: Tensor, view: View, memory: KeysValues | Sums | None = None, cache: Cache | None = None) -> Tensor:
        if self.query is not None:
            assert memory is not None
            q_BHLK, seen = self._split(self.query(x_BLD)), memory
        else:
            q_BLI, kv_BLE = self.project(x_BLD).split([self.inner, 2 * self.inner], -1)
            q_BHLK, kv_2BHLK = self._split(q_BLI), kv_BLE.unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
            found = kv_2BHLK if cache is None else cache.append(kv_2BHLK)
            seen = found if isinstance(found, Sums) else KeysValues(*found)
        return self.out(self._context(q_BHLK, seen, view).transpose(1, 2).flatten(2))

    def _context(self, q_BHLK: Tensor, seen: KeysValues | Sums, view: View) -> Tensor:
        if isinstance(seen, Sums):  # in a decoding step; of the keys themselves nothing is left to look at
            assert self.mixer.folds is not None
            return gated(self.probe, self.name, self.mixer.folds.recall(q_BHLK, seen))
        dropout = self.dropout if self.training else 0.0
        return attend(self.probe, self.name, self.mixer, q_BHLK, *seen, view, dropout)

    def remember(self, memory_BMD: Tensor) -> KeysValues:
        """Keys and values of a memory: once per pass in training, once per sentence in decoding."""
        return KeysValues(*map(self._split, self.project(memory_BMD).split(self.inner, -1)))

    def no_words(self, like: KeysValues) -> KeysValues:
        """What is looked at where nothing was read yet."""
        none_BH0K = like.k_BHMK.new_zeros(len(like.k_BHMK), self.heads, 0, self.head_width)
        return KeysValues(none_BH0K, none_BH0K)

    @property
    def keeps_slots(self) -> bool:
        """Does decoding look at every token that was written?"""
        return self.mixer.folds is None

    def room(self, lineage: BeamAncestry, like_SHPK: Tensor) -> LayerCache:
        """For what decoding keeps."""
        return Slots(lineage, like_SHPK) if self.mixer.folds is None else RunningSums(self.mixer.folds, lineage, like_SHPK)

    def _split(self, x_BLI: Tensor) -> Tensor:
        return x_BLI.unflatten(-1, (self.heads, -1)).transpose(1, 2)
