"""One vector a text, from the vectors of its words: what texts are compared, searched and sorted by (Reimers & Gurevych 2019).

Nothing is trained for it here: the body has learned from another objective what its words mean. Dims: N texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from regard.core.packing import Words
from regard.model.heads import first_tokens, mean_tokens

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
