"""One vector a text, from the vectors of its words: what texts are compared, searched and sorted by (Reimers & Gurevych 2019).

Nothing is trained for it here: the body has learned from another objective what its words mean. Dims: N texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.packing import Packing, Words
from regard.model.heads import first_tokens

Pooling = Literal["mean", "cls"]


@dataclass(frozen=True, kw_only=True)
class VectorsConfig:
    name: Literal["vectors"] = "vectors"
    pooling: Pooling = "mean"  # of all tokens, marks included; or the first one's, [CLS]
    normalised: bool = False  # to length 1, so that products are cosines


def text_vectors(x_BLD: Tensor, words: Words, config: VectorsConfig) -> Tensor:
    """x_ND of texts that come one a row, or packed into one row."""
    pooled_ND = mean_tokens(x_BLD, words) if config.pooling == "mean" else first_tokens(x_BLD, words)
    return F.normalize(pooled_ND, dim=-1) if config.normalised else pooled_ND


def mean_tokens(x_BLD: Tensor, words: Words) -> Tensor:
    """x_ND: the mean of each text's own tokens, whatever stands in the padding behind them."""
    if isinstance(words, Packing):
        lengths_N = words.starts_N.diff().to(x_BLD)
        total_ND = x_BLD.new_zeros(len(lengths_N), x_BLD.shape[-1]).index_add_(0, words.ids_T, x_BLD[0])
        return total_ND / lengths_N[:, None]
    if isinstance(words, Tensor):
        padding_BL = torch.arange(x_BLD.shape[1], device=x_BLD.device) >= words[:, None]
        return x_BLD.masked_fill(padding_BL[..., None], 0).sum(1) / words[:, None]
    raise TypeError("texts that get a vector each come one a row, or packed into one row")
