"""Attention by features: phi(Q) (phi(K)^T V), whose cost grows with the length and not with its square.

Choromanski et al. 2021, "Rethinking attention with Performers" (FAVOR+), with positive orthogonal random features; Katharopoulos
et al. 2020, "Transformers are RNNs", whose recurrent form decodes with memory that does not grow. Which features are meant, a
feature map says; everything else is the same for all of them.

Differs from the papers in: features are scaled so that nothing of the future is felt (`scan`), padding is left out of numerator
and denominator alike, and directions are drawn by count, when a recipe says so, never in the middle of a pass (`features`).

Dims: B batch, H heads, L query length, M memory length, K head width, F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Annotated

import torch
from torch import Tensor, nn

from regard.core.config import Bounds, refuse_unused
from regard.model.mixers.causal_scan import CHUNK, LEAST, Segment, Sums, asked, causal_scan, folded, joined
from regard.model.mixers.feature_maps import FeatureMap, Features, PositiveFeatures
from regard.model.visibility import View
from regard.model.visibility.combine import UnmaskedPattern, must_be_plain

FEATURES = 256  # where a recipe says 0
AT_A_TIME = 2**23  # bytes of features, on a CPU: memory that is asked for in larger pieces comes from the system page by page


@dataclass(frozen=True, kw_only=True)
class FavorSettings:
    """Recipe keys of model.mixer=favor."""

    features: Annotated[int, Bounds(0)] = 0  # of favor; 0: 256
    redraw_every: Annotated[int, Bounds(0)] = 0  # steps of training, of favor; 0: never

    def check_favor(self) -> None:
        refuse_unused(self, FavorSettings, "mixer", "favor")

    @property
    def feature_count(self) -> int:
        return self.features or FEATURES


class Favor(nn.Module):
    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        self.features = features

    @property
    def recurrent_form(self) -> Favor:
        return self

    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        assert not dropout, "there are no weights to drop"
        sees = must_be_plain(view.visibility, "attention by features")
        with torch.autocast(q_BHLK.device.type, enabled=False):
            if sees.causal:
                assert view.length == view.memory, "of a longer past there are sums"
                context_BHLK = self._causal(q_BHLK, k_BHMK, v_BHMK, sees)
            elif sees.documents_BL is None:
                context_BHLK = self._everything(q_BHLK, k_BHMK, v_BHMK, sees.lengths_B)
            else:
                raise ValueError("attention by features keeps the documents of a row apart where it is causal, not otherwise")
            return context_BHLK.to(v_BHMK.dtype)

    def _causal(self, q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor, sees: UnmaskedPattern) -> Tensor:
        def part(start: int, stop: int) -> Segment:
            q, k, v = (each[:, :, start:stop] for each in (q_BHLK, k_BHLK, v_BHLK))
            keys = self._keys(k, sees.lengths_B, start)
            ids_B1L = None if sees.documents_BL is None else sees.documents_BL[:, None, start:stop]
            return Segment(self._mapped(q).phi_BHLF, keys.phi_BHLF, keys.scale_BHL, v.to(_products(v)), ids_B1L)

        return causal_scan(part, q_BHLK.shape[2], self._stride(q_BHLK))

    def _everything(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, lengths_B: Tensor | None) -> Tensor:
        stride = self._stride(k_BHMK)
        if stride is None:
            return asked(self._mapped(q_BHLK).phi_BHLF, folded(self._keys(k_BHMK, lengths_B), v_BHMK.to(_products(v_BHMK))))
        parts = enumerate(zip(k_BHMK.split(stride, 2), v_BHMK.split(stride, 2)))
        sums = reduce(joined, (folded(self._keys(k, lengths_B, n * stride), v.to(_products(v))) for n, (k, v) in parts))
        found = [asked(self._mapped(q).phi_BHLF, sums) for q in q_BHLK.split(stride, 2)]
        return found[0] if len(found) == 1 else torch.cat(found, 2)

    def _stride(self, x_BHLK: Tensor) -> int | None:
        """Return how many positions are computed at a time; None is all, as on a GPU and in a compiled graph for all lengths."""
        batch, heads, _, head_width = x_BHLK.shape
        if x_BHLK.is_cuda or torch.compiler.is_compiling():
            return None
        place = batch * heads * self.features.count(head_width) * x_BHLK.itemsize
        return max(CHUNK, AT_A_TIME // place // CHUNK * CHUNK)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        """Return the weights that the sums imply; the fast form never computes them."""
        queries, keys = self.features(q_BHLK), self.features(k_BHMK)
        scale_BHLM = keys.scale_BHL[..., None, :].masked_fill(~sees_BHLM, -torch.inf)
        peak_BHL1 = scale_BHLM.amax(-1, keepdim=True).clamp_min(torch.finfo(scale_BHLM.dtype).min)
        weights_BHLM = queries.phi_BHLF @ keys.phi_BHLF.mT * (scale_BHLM - peak_BHL1).exp()
        return weights_BHLM / weights_BHLM.sum(-1, keepdim=True).clamp_min(LEAST)

    def flops(self, queries: int, keys: int, head_width: int, share: float) -> int:
        """Return the operations of one head: features, K^T V, and Q times it and its total. A causal scan adds some triangles."""
        features = self.features.count(head_width)
        mapped = 2 if isinstance(self.features, PositiveFeatures) else 1
        return 2 * head_width * features * (queries + keys) * mapped + 2 * features * queries

    def update(self, k_BHMK: Tensor, v_BHMK: Tensor, lengths_B: Tensor | None = None) -> Sums:
        """Return the sums of these keys and values; of sequence b, of its first lengths_B[b]."""
        with torch.autocast(k_BHMK.device.type, enabled=False):
            k_BHMK, v_BHMK = k_BHMK.to(_sums(k_BHMK)), v_BHMK.to(_sums(v_BHMK))  # once for many steps, so as exact as can be
            return folded(self._keys(k_BHMK, lengths_B), v_BHMK)

    def query(self, q_BHLK: Tensor, sums: Sums) -> Tensor:
        """context_BHLK of queries that all see the same sums, or, where those are [B, H, L, ...], each its own."""
        own = sums.peak.dim() == 3
        with torch.autocast(q_BHLK.device.type, enabled=False):
            phi_BHLF = self.features(q_BHLK.to(_sums(q_BHLK))).phi_BHLF
            context_BHLK = asked(phi_BHLF[..., None, :], sums).squeeze(-2) if own else asked(phi_BHLF, sums)
            return context_BHLK.to(q_BHLK.dtype)

    def _mapped(self, x_BHLK: Tensor) -> Features:
        """An exponent is never rounded to half precision: of 10, that would be an error of 4%. What it gives may be."""
        phi_BHLF, scale_BHL = self.features(x_BHLK.to(_sums(x_BHLK)))
        return Features(phi_BHLF.to(_products(x_BHLK)), scale_BHL)

    def _keys(self, k_BHMK: Tensor, lengths_B: Tensor | None, start: int = 0) -> Features:
        """The first of them at this place; of padding the scale is minus infinity."""
        keys = self._mapped(k_BHMK)
        if lengths_B is None:
            return keys
        hidden_B1M = torch.arange(start, start + k_BHMK.shape[2], device=k_BHMK.device) >= lengths_B[:, None, None]
        return keys._replace(scale_BHL=keys.scale_BHL.masked_fill(hidden_B1M, -torch.inf))


def _sums(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype


def _products(x: Tensor) -> torch.dtype:
    """A GPU multiplies in half precision several times as fast, a CPU slower."""
    return x.dtype if x.device.type == "cuda" else _sums(x)
