"""Output heads of a body beside that of words (`VocabularyHead`): logits of classes and tags, and one vector a text.

BERT's masked words pass one more layer before they are scored, and every word has a bias; what a whole text is asked for passes
one more layer too, the pooler (Devlin et al. 2019). ELECTRA asks of each token whether it was replaced (Clark et al. 2020).

Texts are compared, searched and sorted by `text_vectors` (Reimers & Gurevych 2019). Nothing is trained for these: the body has
learned from another objective what its words mean.

Dims: N texts, C outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.packing import Packing, Words
from regard.model.layers import ACTIVATIONS, Activation, Linear, Norm

Pooling = Literal["tanh", "relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "mean"]
POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, **ACTIVATIONS}


class Activated(nn.Module):
    def __init__(self, name: Activation) -> None:
        super().__init__()
        self.function = ACTIVATIONS[name]

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.function(x_BLD)


def before_words(width: int, words_width: int, activation: Activation, epsilon: float) -> nn.Sequential:
    """BERT's layer between its body and its words, which are as wide as they are embedded."""
    return nn.Sequential(Linear(width, words_width), Activated(activation), Norm(words_width, eps=epsilon))


class Pooler(nn.Module):
    """One vector a text: its first token's, through a layer of its own; or the mean of all, as it is."""

    def __init__(self, width: int, pooling: Pooling) -> None:
        super().__init__()
        self.project = None if pooling == "mean" else Linear(width, width)
        self.activation = POOLINGS.get(pooling)

    def forward(self, x_BLD: Tensor, words: Words) -> Tensor:
        if self.project is None or self.activation is None:
            return mean_tokens(x_BLD, words)
        return self.activation(self.project(first_tokens(x_BLD, words)))


def first_tokens(x_BLD: Tensor, words: Words) -> Tensor:
    """x_ND of texts that come one a row, or packed into one row."""
    if isinstance(words, Packing):
        return x_BLD[0, words.starts_N[:-1]]
    if isinstance(words, Tensor):
        return x_BLD[:, 0]
    raise TypeError("texts that are asked for something come one a row, or packed into one row")


def mean_tokens(x_BLD: Tensor, words: Words) -> Tensor:
    """x_ND: the mean of each text's own tokens, whatever stands in the padding behind them."""
    if isinstance(words, Packing):
        lengths_N = words.starts_N.diff().clamp(min=1).to(x_BLD)  # filler may be empty
        total_ND = x_BLD.new_zeros(len(lengths_N), x_BLD.shape[-1]).index_add_(0, words.ids_T, x_BLD[0])
        return total_ND / lengths_N[:, None]
    if isinstance(words, Tensor):
        padding_BL = torch.arange(x_BLD.shape[1], device=x_BLD.device) >= words[:, None]
        return x_BLD.masked_fill(padding_BL[..., None], 0).sum(1) / words[:, None]
    raise TypeError("texts that get a vector each come one a row, or packed into one row")


class LinearHead(nn.Module):
    """logits_..C of vectors: of a text's one, or of each token's."""

    def __init__(self, width: int, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.project = Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.dropout(x))


class ReplacedHead(nn.Module):
    """logits_BL: how likely it is that each token is not the text's own."""

    def __init__(self, width: int, activation: Activation) -> None:
        super().__init__()
        self.dense = Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.project = Linear(width, 1)

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.project(self.activation(self.dense(x_BLD))).squeeze(-1)


VectorPooling = Literal["mean", "cls"]


@dataclass(frozen=True, kw_only=True)
class VectorsConfig:
    name: Literal["vectors"] = "vectors"
    pooling: VectorPooling = "mean"  # of all tokens, marks included; or the first one's, [CLS]
    normalised: bool = False  # to length 1, so that products are cosines


def text_vectors(x_BLD: Tensor, words: Words, config: VectorsConfig) -> Tensor:
    """x_ND of texts that come one a row, or packed into one row."""
    pooled_ND = mean_tokens(x_BLD, words) if config.pooling == "mean" else first_tokens(x_BLD, words)
    return F.normalize(pooled_ND, dim=-1) if config.normalised else pooled_ND
