"""Output heads of a body: logits of words (Vaswani et al. 2017, section 3.4), of classes, of tags, and pooled vectors.

BERT's masked words pass one more layer before they are scored, and every word has a bias; what a whole text is asked for passes
one more layer too, the pooler (Devlin et al. 2019). ELECTRA asks of each token whether it was replaced (Clark et al. 2020).

Dims: N texts, C outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.packing import Packing, Words
from regard.model.layers import ACTIVATIONS, Activation, Linear, Norm

Pooling = Literal["tanh", "relu", "gelu", "gelu_tanh", "silu", "mean"]
POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": F.relu, "gelu": F.gelu, "silu": F.silu}
POOLINGS["gelu_tanh"] = partial(F.gelu, approximate="tanh")
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
}


class VocabularyHead(nn.Module):
    """logits_BLV = x W^T; W may be the embedding itself (Press & Wolf 2017)."""

    def __init__(
        self,
        width: int,
        vocabulary: int,
        tied: nn.Embedding | None = None,
        bias: bool = False,
        before: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.before = before
        self.project = Linear(width, vocabulary, bias=bias)
        if tied is not None:
            self.project.weight = tied.weight

    def extra_repr(self) -> str:
        return f"D={self.project.in_features} -> V={self.project.out_features:,}"

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.project(self.ready(x_BLD))

    def ready(self, x_BLD: Tensor) -> Tensor:
        """Return the vectors before the last product, which a loss computes in chunks, never as one matrix."""
        return x_BLD if self.before is None else self.before(x_BLD)


class Scale(nn.Module):
    """Multiply vectors by one number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x_BLD: Tensor) -> Tensor:
        return x_BLD * self.factor


def before_words(width: int, words_width: int, activation: Activation, epsilon: float) -> nn.Sequential:
    """BERT's layer between its body and its words, which are as wide as they are embedded."""
    return nn.Sequential(Linear(width, words_width), LAYERS[activation](), Norm(words_width, eps=epsilon))


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
