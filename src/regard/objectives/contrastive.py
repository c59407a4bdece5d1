"""Contrastive learning: find the reply to each context among all replies of a batch.

    L = -log exp(cos(x, y) / t) / sum over replies y' of exp(cos(x, y') / t)        and the same for each reply and all contexts

InfoNCE; van den Oord et al. 2018, Henderson et al. 2017. The other replies of the batch are the negatives, so a larger batch is a
harder task; replies equal to the right one are left out.
Dims: N exchanges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Bounds, check_bounds
from regard.data.batching.pairs import ExchangeBatch
from regard.families.two_tower import TwoTower
from regard.model.heads import VectorPooling
from regard.objectives.base import Loss


@dataclass(frozen=True, kw_only=True)
class ContrastiveConfig:
    name: Literal["contrastive"] = "contrastive"
    temperature: Annotated[float, Bounds(0, above=True, example="0.05")] = 0.05
    pooling: VectorPooling = "mean"  # the vector of a text: the mean of its tokens, or that of the first one, [CLS]
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class ContrastiveLoss:
    """The mean of two cross-entropies: replies given contexts, and contexts given replies."""

    def __init__(self, config: ContrastiveConfig) -> None:
        self.temperature = config.temperature

    def __call__(self, model: TwoTower, batch: ExchangeBatch) -> Loss:
        x_ND = model(batch.contexts_BL, batch.context_lengths_B, "contexts").float()
        y_ND = model(batch.replies_BL, batch.reply_lengths_B, "replies").float()
        scores_NN = mask_duplicates(x_ND @ y_ND.T / self.temperature, batch.numbers_B)
        right_N = torch.arange(len(scores_NN), device=scores_NN.device)
        of_contexts, of_replies = (F.cross_entropy(scores, right_N, reduction="sum") for scores in (scores_NN, scores_NN.T))
        total = (of_contexts + of_replies) / 2
        return Loss(total, {} if model.training else {"nll": total}, batch.tokens)


def mask_duplicates(scores_NN: Tensor, numbers_N: Tensor) -> Tensor:
    """Set to -inf the scores of replies that equal the right one but belong to another context."""
    same_NN = numbers_N[:, None] == numbers_N
    others_NN = ~torch.eye(len(numbers_N), dtype=torch.bool, device=numbers_N.device)
    return scores_NN.masked_fill(same_NN & others_NN, -torch.inf)
