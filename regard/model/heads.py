"""Heads: what a body's vectors are asked for. Here: a score for every word (Vaswani et al. 2017, section 3.4).

BERT's masked words pass one more layer before they are scored, and every word has a bias (Devlin et al. 2019).
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.model.linear import Linear


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

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.project(self.ready(x_BLD))

    def ready(self, x_BLD: Tensor) -> Tensor:
        """What is multiplied with the words: a loss does that in chunks, so that no matrix of all tokens and words is made."""
        return x_BLD if self.before is None else self.before(x_BLD)
