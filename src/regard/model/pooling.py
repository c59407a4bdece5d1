"""One vector for many: for a whole text, for a pair of texts, for each word out of all layers, or by a learned query.

`Summary`: the first token's vector, or the mean of all. Tay et al. 2021 (section 2.2.3, after Conneau et al. 2017) compare two
texts by (x, y, x * y, x - y); a layer as wide as the body follows. It has GELU where the paper has ReLU: at the start the mean
of a thousand tokens is about the same for every text, so a ReLU unit is on or off for all of them, and once off it never learns.
For the same reason the vector may be normalised over the batch.
`LayerSum`: gamma * sum over layers j of s_j h_kj, s = softmax(w) (Peters et al. 2018, equation 1). Weights and scale belong to
the task; both start where the sum is a plain mean.

`LearnedQuery` is attention with a learned query (Yang et al. 2016, equations 5 to 7): u_t = tanh(W h_t + b), a_t = softmax(u_t .
u), s = sum of a_t h_t. The vector u is learned as any weight is; it stands for one question, what is informative here? To the
seam this is a head with one query for all rows: keys are u_t, values h_t, and the score a dot product.

Dims: N texts, pairs of texts or layers, B rows, M vectors of a row, D width, T tokens of all texts in a row.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.packing import Packing, Words
from regard.model.attention import attend
from regard.model.heads import first_tokens
from regard.model.layers import BatchNorm, Linear, without_autocast
from regard.model.mixers.scores import Dot
from regard.model.probe import Probe
from regard.model.visibility import padding

Pooled = Literal["first", "mean"]
PooledNorm = Literal["none", "batch"]


class Summary(nn.Module):
    """x_ND of texts; or with `apart`, where every second text belongs to the one before it, of pairs of texts."""

    def __init__(self, width: int, pooling: Pooled, apart: bool = False, norm: PooledNorm = "none") -> None:
        super().__init__()
        self.pooling, self.apart = pooling, apart
        given = 4 * width if apart else width
        self.norm = BatchNorm(given) if norm == "batch" else None
        self.project = Linear(given, width)

    def forward(self, x_BLD: Tensor, words: Words) -> Tensor:
        if self.norm is None:
            return F.gelu(self.project(self._pooled(x_BLD, words)))
        given_N = words.given_N if isinstance(words, Packing) else x_BLD.new_ones(len(x_BLD), dtype=torch.bool)
        with without_autocast(x_BLD.device.type):  # what texts differ in is small, and half precision rounds it away
            pooled = self._pooled(x_BLD.float(), words)
        normed = self.norm(pooled, given_N[:: 2 if self.apart else 1])
        return F.gelu(self.project(normed.to(self.project.weight.dtype)))

    def _pooled(self, x_BLD: Tensor, words: Words) -> Tensor:
        pooled = first_tokens(x_BLD, words) if self.pooling == "first" else mean_tokens(x_BLD, words)
        return compared(pooled) if self.apart else pooled


def mean_tokens(x_BLD: Tensor, words: Words) -> Tensor:
    """x_ND of texts that come one a row, or packed into one row; zeros of one that has no words.

    Which tokens are whose is a matrix of zeros and ones to multiply with: sums in one order, and nothing for the host to know.
    """
    if isinstance(words, Packing):
        lengths_N, number_N = words.starts_N.diff(), torch.arange(words.sequences, device=x_BLD.device)
        whose_NT = (words.ids_T == number_N[:, None]).to(x_BLD.dtype)
        sums_ND = whose_NT @ x_BLD[0]
    elif isinstance(words, Tensor):
        lengths_N, places_L = words, torch.arange(x_BLD.shape[1], device=x_BLD.device)
        word_BL = (places_L < lengths_N[:, None]).to(x_BLD.dtype)
        sums_ND = (word_BL[:, None] @ x_BLD)[:, 0]
    else:
        raise TypeError("texts that are asked for something come one a row, or packed into one row")
    return (sums_ND / lengths_N.clamp(min=1)[:, None]).to(x_BLD.dtype)


def compared(x: Tensor) -> Tensor:
    """(x, y, x * y, x - y) of every two that follow each other."""
    first_ND, second_ND = x.unflatten(0, (-1, 2)).unbind(1)
    return torch.cat([first_ND, second_ND, first_ND * second_ND, first_ND - second_ND], -1)


class LayerSum(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights_N = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    @property
    def shares_N(self) -> Tensor:
        """Return the share of each layer; shares sum to one."""
        return self.weights_N.softmax(0)

    def forward(self, x_NBLD: Tensor) -> Tensor:
        return self.scale.to(x_NBLD) * torch.einsum("n,nbld->bld", self.shares_N.to(x_NBLD), x_NBLD)


class LearnedQuery(nn.Module):
    heads = 1

    def __init__(self, width: int, *, name: str) -> None:
        super().__init__()
        self.name, self.mixer = name, Dot()
        self.keys = Linear(width, width)
        self.query_D = nn.Parameter(torch.empty(width))
        self.out = nn.Identity()  # where an attention has its output projection
        self.probe: Probe | None = None

    def extra_repr(self) -> str:
        return f"D={len(self.query_D)}"

    def forward(self, x_BMD: Tensor, lengths_B: Tensor) -> Tensor:
        """x_BD; of each row the first lengths_B count."""
        batch, length, _ = x_BMD.shape
        keys_BMD = self.keys(x_BMD).tanh()
        view = padding(lengths_B).over(1, length, batch=batch, device=x_BMD.device)
        q_B11D = self.query_D.to(keys_BMD.dtype).expand(batch, 1, 1, -1)
        context_B11D = attend(self.probe, self.name, self.mixer, q_B11D, keys_BMD[:, None], x_BMD[:, None], view, None, 0.0)
        return self.out(context_B11D[:, 0, 0])
