"""A convolution in an attention's place: what a word takes from its neighbours depends on how far they are, not on what they say.

Wu et al. 2019, "Pay less attention with lightweight and dynamic convolutions": a gated projection, then each head adds up its
neighbours with W weights of its own (softmax of what is learned, so that they are shares of 1), then the output projection. Where
the view is causal the neighbours are those before. With model.dilation=2, a layer's neighbours are twice as far apart as in the
layer below, as in ByteNet (Kalchbrenner et al. 2016), five layers long: the path between two words is logarithmic in their
distance. Without it, as in ConvS2S (Gehring et al. 2017), it is linear.

Differs from the paper in: no dropout of kernels. A probe shows weights, the same whatever is read, and may gate heads.

Dims: B batch, L length, D width, H heads, K head width, W kernel width, S sentences, T tokens that are looked back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.config import Bounds, refuse_unused
from regard.core.errors import UserError
from regard.model.attention import KeysValues, gate_heads
from regard.model.layers import Linear
from regard.model.probe import Probe, Seen
from regard.model.state.kv_cache import BeamAncestry, Cache, ConvState, LayerCache
from regard.model.visibility import View
from regard.model.visibility.combine import UnmaskedPattern, must_be_plain

if TYPE_CHECKING:
    from regard.model.block import BlockConfig


KERNEL_WIDTH = 7  # where a recipe says 0
CYCLE = 5  # layers of convolutions, each with neighbours further apart than the one below; then the distances start again


@dataclass(frozen=True, kw_only=True)
class ConvolutionSettings:
    """Recipe keys of model.mixer=conv."""

    kernel_width: Annotated[int, Bounds(0)] = 0  # of conv; 0: 7
    dilation: Annotated[int, Bounds(0)] = 0  # of conv: how many times as far apart neighbours are as in the layer below; 0: once

    def check_convolution(self, mixer: str, pruned: Sequence[str]) -> None:
        refuse_unused(self, ConvolutionSettings, "mixer", "conv")
        if self.kernel_width and self.kernel_width % 2 == 0:
            raise UserError(f"model.kernel_width={self.kernel_width} has no middle; give an odd number, such as {KERNEL_WIDTH}.")
        if mixer == "conv" and (gone := [entry for entry in pruned if ".self:" in entry]):
            raise UserError(f"model.pruned={gone[0]}: model.mixer=conv has no heads there; leave it out.")

    @property
    def kernel_size(self) -> int:
        return self.kernel_width or KERNEL_WIDTH

    def dilation_of(self, layer: int) -> int:
        """Return how far apart the neighbours of a layer are: further in each layer, then from 1 again, as in ByteNet."""
        return max(1, self.dilation) ** (layer % CYCLE)


class Convolution(nn.Module):
    @classmethod
    def build(cls, config: BlockConfig, name: str, layer: int) -> Convolution:
        c = config
        return cls(c.width, c.heads, kernel_width=c.kernel_size, dilation=c.dilation_of(layer), name=name)

    def __init__(self, width: int, heads: int, *, kernel_width: int, dilation: int, name: str) -> None:
        super().__init__()
        self.name, self.width, self.heads, self.head_width, self.dilation = name, width, heads, width // heads, dilation
        self.project = Linear(width, 2 * width)
        self.kernel_HW = nn.Parameter(torch.zeros(heads, kernel_width))
        self.out = Linear(width, width)
        self.probe: Probe | None = None

    def forward(
        self, x_BLD: Tensor, view: View, memory: None = None, cache: Cache | None = None, position: None = None
    ) -> Tensor:
        v_BHLK = F.glu(self.project(x_BLD)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        kernel_HW = self.kernel_HW.softmax(-1).to(v_BHLK.dtype)
        if isinstance(cache, ConvState):
            context_BHLK = (cache.append(v_BHLK[None])[:, :, :, :: self.dilation] * kernel_HW[:, None, :, None]).sum(3)
        else:
            if cache is not None:
                cache.append(v_BHLK[None])
            context_BHLK = self._mixed(v_BHLK, kernel_HW, view)
        return self.out(gate_heads(self.probe, self.name, context_BHLK).transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        return f"D={self.width} as H={self.heads}, {self.kernel_HW.shape[1]} neighbours"

    def elementwise_flops(self, x_BLD: Tensor) -> int:
        """Return the operations of the kernel's taps, which are no product of matrices."""
        return 2 * x_BLD.numel() * self.kernel_HW.shape[1]

    def _mixed(self, v_BHLK: Tensor, kernel_HW: Tensor, view: View) -> Tensor:
        sees, length = must_be_plain(view.visibility, "a convolution"), v_BHLK.shape[2]
        if self.probe is not None and self.probe.recording:
            fixed = Fixed(kernel_HW, self.dilation, sees.causal)
            self.probe.seen[self.name] = Seen(fixed, *fixed.places(v_BHLK), v_BHLK, view)
        if sees.lengths_B is not None:
            hidden_B1L1 = torch.arange(length, device=v_BHLK.device) >= sees.lengths_B[:, None, None]
            v_BHLK = v_BHLK.masked_fill(hidden_B1L1[..., None], 0.0)
        before, after = reach(kernel_HW.shape[1], self.dilation, sees.causal)
        padded_BHLK = F.pad(v_BHLK, (0, 0, before, after))
        context_BHLK = torch.zeros_like(v_BHLK)
        for n in range(kernel_HW.shape[1]):
            start = n * self.dilation
            tap_BHLK = padded_BHLK[:, :, start : start + length] * kernel_HW[:, n, None, None]
            same = _same_document(sees, start - before)
            context_BHLK = context_BHLK + (tap_BHLK if same is None else tap_BHLK * same)
        return context_BHLK

    def empty_kv(self, like: KeysValues) -> tuple[Tensor, ...]:
        """Return values of length 0: the prompt of a decoder that has none."""
        return (like.k_BHMK.new_zeros(len(like.k_BHMK), self.heads, 0, self.head_width),)

    @property
    def keeps_slots(self) -> bool:
        return False

    def make_cache(self, ancestry: BeamAncestry, like_SHPK: Tensor) -> LayerCache:
        """Create this layer's decoding cache: the last values that the kernel reaches."""
        return ConvState((self.kernel_HW.shape[1] - 1) * self.dilation, ancestry, like_SHPK)


class Fixed:
    """Weights as a probe shows them; a query or key is a pair of position and head."""

    recurrent_form = None

    def __init__(self, kernel_HW: Tensor, dilation: int, causal: bool) -> None:
        self.kernel_HW, self.dilation, self.causal = kernel_HW.detach().float(), dilation, causal

    def places(self, v_BHLK: Tensor) -> tuple[Tensor, Tensor]:
        """Return positions and heads as queries and as keys."""
        batch, heads, length, _ = v_BHLK.shape
        place_HL, head_HL = torch.meshgrid(torch.arange(length), torch.arange(heads), indexing="xy")
        both_BHL2 = torch.stack([place_HL, head_HL], -1).to(v_BHLK.device).expand(batch, -1, -1, -1)
        return both_BHL2, both_BHL2

    def mix(self, q_BHL2: Tensor, k_BHM2: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        return self.weights(q_BHL2, k_BHM2, view.rows(torch.arange(view.length, device=view.device))) @ v_BHMK

    def weights(self, q_BHL2: Tensor, k_BHM2: Tensor, sees_BHLM: Tensor) -> Tensor:
        """Return the kernel's weights; missing neighbours keep their share, so rows near an end sum to less than 1."""
        width = self.kernel_HW.shape[1]
        before, _ = reach(width, self.dilation, self.causal)
        offset_BHLM = k_BHM2[..., None, :, 0].long() - q_BHL2[..., None, 0].long() + before
        tap_BHLM = offset_BHLM.div(self.dilation, rounding_mode="floor")
        reached = sees_BHLM & (offset_BHLM % self.dilation == 0) & (tap_BHLM >= 0) & (tap_BHLM < width)
        return self.kernel_HW[q_BHL2[..., None, 1].long(), tap_BHLM.clamp(0, width - 1)].masked_fill(~reached, 0.0)


def reach(kernel_width: int, dilation: int, causal: bool) -> tuple[int, int]:
    """Return how many positions before and after its own a token reaches."""
    span = (kernel_width - 1) * dilation
    return (span, 0) if causal else (span // 2, span // 2)


def _same_document(sees: UnmaskedPattern, offset: int) -> Tensor | None:
    """Return where the neighbour at this offset belongs to the same document."""
    if sees.documents_BL is None or not offset:
        return None
    length = sees.documents_BL.shape[1]
    shifted_BL = F.pad(sees.documents_BL, (max(0, -offset), max(0, offset)), value=-1)[:, max(0, offset) :][:, :length]
    return (shifted_BL == sees.documents_BL)[:, None, :, None]
