"""Multi-head attention and the one seam that every attention of every family passes through.

Vaswani et al. 2017, section 3.2.2: concat(head_1 .. head_H) W_O, head_i = attention(Q W_i^Q, K W_i^K, V W_i^V). Projections of
the same vectors share a matrix: queries, keys and values in self-attention; keys and values in cross-attention, whose queries
come from other vectors. H heads of K = D / H, or of any other width. With fewer key/value heads than heads (grouped-query
attention, Ainslie et al. 2023), groups of H / G heads share keys and values, and a decoding cache holds G heads. Pruned heads are
gone from every matrix; the others keep their width. Values may have a width of their own (`value_width`). With `qk_norm` (Henry
et al. 2020, as in Qwen3) each query and key is divided by its root mean square before it is rotated, so that scores stay small.

Dims: B batch, L query length, M memory length, D width, H heads, G key/value heads, K head width, I = H K.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, cat, nn, stack

from regard.model.layers import Linear, RMSNorm
from regard.model.mixers import Mixer
from regard.model.mixers.causal_scan import Sums
from regard.model.position.base import Bias, Placement
from regard.model.probe import Probe, Seen
from regard.model.state.kv_cache import BeamAncestry, Cache, LayerCache, RunningSums, Slots
from regard.model.visibility import View


def attend(
    probe: Probe | None,
    name: str,
    mixer: Mixer,
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    view: View,
    bias: Bias | None,
    dropout: float,
) -> Tensor:
    """Return context_BHLK: values mixed by attention. Kernels are chosen below this line; a probe records and gates here.

    With a probe the same kernel runs: it keeps references, from which weights are rebuilt on request, and may gate heads.
    """
    more = () if bias is None else (bias,)  # a mixer without scores takes no bias, and settings have seen to it
    context_BHLK = mixer.mix(q_BHLK, k_BHMK, v_BHMK, view, dropout, *more)
    if probe is not None and probe.recording:
        mixer, q_BHLK = mixer.shown(q_BHLK, k_BHMK, view) if hasattr(mixer, "shown") else (mixer, q_BHLK)
        probe.seen[name] = Seen(mixer, q_BHLK, k_BHMK, v_BHMK, view, bias)
    return gate_heads(probe, name, context_BHLK)


def gate_heads(probe: Probe | None, name: str, context_BHLK: Tensor) -> Tensor:
    """Multiply every head's context by the probe's gate: one number a head for all sequences, or for each of them."""
    if probe is None or (gate := probe.gates.get(name)) is None:
        return context_BHLK
    gate = gate.to(context_BHLK)
    if gate.dim() == 2 and len(gate) > 1:
        rows = probe.rows
        sequences = len(context_BHLK) // rows if isinstance(rows, int) else len(rows)
        if len(gate) != sequences:
            raise ValueError(f"the gate of {name} has {len(gate)} rows; it needs one, or one for each of {sequences} sequences")
        gate = gate.repeat_interleave(rows, 0)
    return context_BHLK * gate[..., None, None]


class KeysValues(NamedTuple):
    k_BHMK: Tensor
    v_BHMK: Tensor


class Attention(nn.Module):
    """Self-attention, or with `cross` attention from x to a memory of `memory_width`. `heads` counts those not pruned."""

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
        value_width: int | None = None,
        kv_heads: int | None = None,
        memory_width: int | None = None,
        bias: bool = True,
        qkv_bias: bool = False,
        scaled: bool = True,
        qk_norm: float = 0.0,
    ) -> None:
        super().__init__()
        self.name, self.width, self.heads, self.head_width = name, width, heads, head_width or width // heads
        self.kv_heads, self.value_width = kv_heads or heads, value_width or self.head_width
        self.mixer = mixer
        self.dropout = dropout
        self.scaled = scaled
        self.query = Linear(width, self.inner, bias=bias or qkv_bias) if cross else None
        given = (memory_width or width) if cross else width
        self.project = Linear(given, sum(self.projections), bias=bias or qkv_bias)
        self.out = Linear(self.heads * self.value_width, width, bias=bias)
        self.query_norm = RMSNorm(self.head_width, eps=qk_norm) if qk_norm else None  # with this epsilon
        self.key_norm = RMSNorm(self.head_width, eps=qk_norm) if qk_norm else None
        self.probe: Probe | None = None

    def extra_repr(self) -> str:
        shared = f", G={self.kv_heads}" if self.kv_heads != self.heads else ""
        return f"D={self.width} as H={self.heads} x K={self.head_width}{shared}"

    @property
    def inner(self) -> int:
        """Width of all heads side by side."""
        return self.heads * self.head_width

    @property
    def projections(self) -> tuple[int, ...]:
        """Sizes of the parts of `project`: queries (in self-attention), keys, values."""
        kv = self.kv_heads * self.head_width, self.kv_heads * self.value_width
        return kv if self.query is not None else (self.inner, *kv)

    def forward(
        self,
        x_BLD: Tensor,
        view: View,
        memory: KeysValues | Sums | None = None,
        cache: Cache | None = None,
        position: Placement | None = None,
    ) -> Tensor:
        if self.query is not None:
            assert memory is not None
            q_BHLK, seen = self._split(self.query(x_BLD)), memory
            q_BHLK = q_BHLK if self.query_norm is None else self.query_norm(q_BHLK)
        elif self.value_width != self.head_width:
            assert cache is None
            assert position is None
            q_BLI, *kv = self.project(x_BLD).split(self.projections, -1)
            q_BHLK, seen = self._split(q_BLI), KeysValues(*(x.unflatten(-1, (self.kv_heads, -1)).transpose(1, 2) for x in kv))
        else:
            q_BLI, kv_BLE = self.project(x_BLD).split([self.inner, 2 * self.kv_heads * self.head_width], -1)
            q_BHLK, kv_2BGLK = self._split(q_BLI), kv_BLE.unflatten(-1, (2, self.kv_heads, -1)).permute(2, 0, 3, 1, 4)
            if self.query_norm is not None and self.key_norm is not None:
                q_BHLK, kv_2BGLK = self.query_norm(q_BHLK), stack([self.key_norm(kv_2BGLK[0]), kv_2BGLK[1]])
            if position is not None and position.rotates:
                turned_BELK = position.rotate(cat([q_BHLK, kv_2BGLK[0]], 1))  # queries and keys at once
                q_BHLK, kv_2BGLK = turned_BELK[:, : self.heads], stack([turned_BELK[:, self.heads :], kv_2BGLK[1]])
            found = kv_2BGLK if cache is None else cache.append(kv_2BGLK)
            seen = found if isinstance(found, Sums) else KeysValues(*found)
        return self.out(self._context(q_BHLK, seen, view, position).transpose(1, 2).flatten(2))

    def _context(self, q_BHLK: Tensor, seen: KeysValues | Sums, view: View, position: Placement | None) -> Tensor:
        if isinstance(seen, Sums):  # in a decoding step: the keys themselves were not kept, so a probe has nothing to record
            assert self.mixer.recurrent_form is not None
            return gate_heads(self.probe, self.name, self.mixer.recurrent_form.query(q_BHLK, seen))
        k_BHMK, v_BHMK = seen
        if self.kv_heads != self.heads:
            shared = self.heads // self.kv_heads
            k_BHMK, v_BHMK = (part[:, :, None].expand(-1, -1, shared, -1, -1).flatten(1, 2) for part in seen)
        bias = None if position is None or self.query is not None else position.bias(q_BHLK, k_BHMK)
        if not self.scaled:  # mixers divide by the root of the head width
            q_BHLK = q_BHLK * self.head_width**0.5
        dropout = self.dropout if self.training else 0.0
        return attend(self.probe, self.name, self.mixer, q_BHLK, k_BHMK, v_BHMK, view, bias, dropout)

    def project_kv(self, memory_BMD: Tensor) -> KeysValues:
        """Return keys and values of a memory: once per pass in training, once per sentence in decoding."""
        parts = self.project(memory_BMD).split(self.projections, -1)
        k_BGMK, v_BGMK = (part.unflatten(-1, (self.kv_heads, -1)).transpose(1, 2) for part in parts)
        return KeysValues(k_BGMK if self.key_norm is None else self.key_norm(k_BGMK), v_BGMK)

    def empty_kv(self, like: KeysValues) -> KeysValues:
        """Return keys and values of length 0: the prompt of a decoder that has none."""
        none_BG0K = like.k_BHMK.new_zeros(len(like.k_BHMK), self.kv_heads, 0, self.head_width)
        return KeysValues(none_BG0K, none_BG0K)

    @property
    def keeps_slots(self) -> bool:
        """Does decoding keep the keys and values of every token?"""
        return self.mixer.recurrent_form is None

    def make_cache(self, ancestry: BeamAncestry, like_SGPK: Tensor) -> LayerCache:
        """Create this layer's decoding cache: key/value slots, or running sums for linear attention."""
        form = self.mixer.recurrent_form
        return Slots(ancestry, like_SGPK) if form is None else RunningSums(form, ancestry, like_SGPK)

    def _split(self, x_BLI: Tensor) -> Tensor:
        return x_BLI.unflatten(-1, (self.heads, -1)).transpose(1, 2)
