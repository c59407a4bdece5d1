"""Heads: what a body's vectors are asked for. Here: a score for every word (Vaswani et al. 2017, section 3.4)."""

from __future__ import annotations

from torch import Tensor, nn


class VocabularyHead(nn.Module):
    """logits_BLV = x W^T, without bias; W may be the embedding itself (Press & Wolf 2017)."""

    def __init__(self, width: int, vocabulary: int, tied: nn.Embedding | None = None) -> None:
        super().__init__()
        self.project = nn.Linear(width, vocabulary, bias=False)
        if tied is not None:
            self.project.weight = tied.weight

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.project(x_BLD)
