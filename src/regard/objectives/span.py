"""Span prediction: score the first and the last token of the answer (Devlin et al. 2019, section 4.2).

    L = -(log p(start) + log p(end)) / 2,    p a softmax over the window's context and [CLS], which stands for "not here"

Differs from the paper in: tokens of the question and the last [SEP] cannot be chosen.

Dims: N windows, L their longest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from regard.core.packing import IGNORED, Packing
from regard.data.batching.qa import SpanBatch
from regard.families.bert import BERT
from regard.objectives.base import Loss

NEVER = -1e9  # the score of a token that cannot be chosen; finite, so that its gradient is 0 and not NaN


@dataclass(frozen=True, kw_only=True)
class SpanConfig:
    name: Literal["span"] = "span"
    passes = 1


class SpanLoss:
    """The cross-entropy of start and end."""

    def __init__(self, config: SpanConfig) -> None:
        self.config = config

    def __call__(self, model: BERT, batch: SpanBatch) -> Loss:
        total = span_loss(span_scores(model, batch), batch)
        return Loss(total, {} if model.training else {"nll": total}, batch.tokens)


def span_scores(model: BERT, batch: SpanBatch) -> Tensor:
    """Return scores_NL2: for each token of a window, that the answer starts there, and that it ends there."""
    segments_BL = batch.segments_BL if model.config.segments > 1 else None
    scores_BL2 = model.span(model.hidden(batch.ids_BL, batch.words, segments_BL)).float()
    scores_BL2 = scores_BL2.masked_fill(~batch.choosable_BL[..., None], NEVER)
    if not isinstance(packing := batch.words, Packing):
        return scores_BL2
    scores_NL2 = scores_BL2.new_full((len(batch.targets_N2), packing.longest, 2), NEVER)
    return scores_NL2.index_put((packing.ids_T, packing.positions_T), scores_BL2[0])


def span_loss(scores_NL2: Tensor, batch: SpanBatch) -> Tensor:
    """Return the loss, summed over windows."""
    return F.cross_entropy(scores_NL2, batch.targets_N2, reduction="sum", ignore_index=IGNORED) / 2
