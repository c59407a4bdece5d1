"""Other scores than the scaled dot product, each with the mixers' two forms.

    dot        q . k, not divided by sqrt(K)        Luong et al. 2015, equation 8
    bilinear   q^T W k, the paper's "general"       the same
    additive   w^T tanh(q + k)                      Bahdanau et al. 2015, section A.1.2

`dot` and `bilinear` multiply queries by sqrt(K), by which the softmax kernels divide, so every kernel and visibility serves them.
`additive` needs K tangents a pair and no matrix product; the paper's W and U are the projections of queries and keys. W and w are
shared by all heads; for one head nothing differs from the papers. `FixedWeights` are weights that are known already, for
attention that was computed piece by piece: a query is a row of them.

Dims: B batch, H heads, L query length, M memory length, K head width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.model.mixers.softmax import Softmax
from regard.model.position.base import Bias
from regard.model.visibility import View


class Dot:
    recurrent_form = None

    def __init__(self) -> None:
        self.softmax = Softmax()

    def mix(
        self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0, bias: Bias | None = None
    ) -> Tensor:
        return self.softmax.mix(_undivided(q_BHLK), k_BHMK, v_BHMK, view, dropout, bias)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor, bias_BHLM: Tensor | None = None) -> Tensor:
        return self.softmax.weights(_undivided(q_BHLK), k_BHMK, sees_BHLM, bias_BHLM)


class Bilinear(nn.Module):
    recurrent_form = None

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.between_KK = nn.Parameter(torch.empty(head_width, head_width))
        self.dot = Dot()

    def mix(
        self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0, bias: Bias | None = None
    ) -> Tensor:
        return self.dot.mix(self._turned(q_BHLK), k_BHMK, v_BHMK, view, dropout, bias)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor, bias_BHLM: Tensor | None = None) -> Tensor:
        return self.dot.weights(self._turned(q_BHLK), k_BHMK, sees_BHLM, bias_BHLM)

    def flops(self, queries: int, keys: int, head_width: int, share: float) -> int:
        """Return the operations of one head: W q of every query, scores and the weighted sum of the share of pairs."""
        return 2 * queries * head_width**2 + 4 * round(queries * keys * share) * head_width

    def _turned(self, q_BHLK: Tensor) -> Tensor:
        return q_BHLK @ self.between_KK.to(q_BHLK.dtype)


def _undivided(q_BHLK: Tensor) -> Tensor:
    return q_BHLK * q_BHLK.shape[-1] ** 0.5


AT_A_TIME = 2**27  # bytes of tangents; what needs more comes in parts, which are computed again for their gradient


class Additive(nn.Module):
    recurrent_form = None

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.weight_K = nn.Parameter(torch.empty(head_width))

    def mix(
        self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0, bias: Bias | None = None
    ) -> Tensor:
        if view.mask is None and (view.causal or view.blocks is not None or view.packed is not None):
            view = view.rendered()
        scores_BHLM = self.scores(q_BHLK, k_BHMK)
        if bias is not None:
            scores_BHLM = scores_BHLM + bias.dense().to(scores_BHLM.dtype)
        scores_BHLM = masked(scores_BHLM, view.mask)
        weights_BHLM = F.dropout(scores_BHLM.softmax(-1), dropout).to(v_BHMK.dtype)
        context_BHLK = weights_BHLM @ v_BHMK
        return context_BHLK if view.fully_masked_rows is None else context_BHLK.masked_fill(view.fully_masked_rows, 0.0)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor, bias_BHLM: Tensor | None = None) -> Tensor:
        """Return weights_BHLM; sees_BHLM may count how many times a key is seen, as in `softmax`."""
        scores_BHLM = self.scores(q_BHLK, k_BHMK)
        if bias_BHLM is not None:
            scores_BHLM = scores_BHLM + bias_BHLM
        if sees_BHLM.dtype != torch.bool:
            scores_BHLM = scores_BHLM + sees_BHLM.clamp(min=1).log().to(scores_BHLM.dtype)
        weights_BHLM = masked(scores_BHLM, sees_BHLM != 0).softmax(-1)
        return weights_BHLM.masked_fill(~sees_BHLM.any(-1, keepdim=True), 0.0)

    def of_one(self, k_BMK: Tensor, q_BK: Tensor) -> Tensor:
        """scores_BM of one query each."""
        return _scores(q_BK[:, None, None], k_BMK[:, None], self.weight_K.to(q_BK.dtype))[:, 0, 0]

    def scores(self, q_BHLK: Tensor, k_BHMK: Tensor) -> Tensor:
        weight_K = self.weight_K.to(q_BHLK.dtype)
        rows = max(1, AT_A_TIME // (k_BHMK.numel() * k_BHMK.itemsize))
        if q_BHLK.shape[2] <= rows:
            return _scores(q_BHLK, k_BHMK, weight_K)
        parts = [
            checkpoint(_scores, part_BHLK, k_BHMK, weight_K, use_reentrant=False, preserve_rng_state=False)
            for part_BHLK in q_BHLK.split(rows, 2)
        ]
        return torch.cat(parts, 2)


def _scores(q_BHLK: Tensor, k_BHMK: Tensor, weight_K: Tensor) -> Tensor:
    return (q_BHLK[:, :, :, None] + k_BHMK[:, :, None]).tanh_() @ weight_K


def masked(scores_BHLM: Tensor, mask: Tensor | None) -> Tensor:
    """Return scores with a boolean mask applied, or a mask of numbers added."""
    if mask is None:
        return scores_BHLM
    return scores_BHLM.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores_BHLM + mask


class FixedWeights:
    recurrent_form = None

    def mix(self, q_BHLM: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        return q_BHLM.to(v_BHMK.dtype) @ v_BHMK

    def weights(self, q_BHLM: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        return q_BHLM
