"""Causal language modelling: predict every token from those before it (Radford et al. 2018, equation 1).

Bidirectional language modelling: predict every token from those before it and from those after it.

    L = - sum over tokens of (log p(token | tokens before) + log p(token | tokens after)) / 2

Peters et al. 2018, section 3.1. A window has one token more than each direction reads: the forward LSTM reads all but the last
token, the backward LSTM all but the first, and each predicts the tokens that the other one reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from regard.data.batching.windows import WindowBatch
from regard.model.embedding import VocabularyHead
from regard.objectives.base import Loss, Model
from regard.objectives.chunked_cross_entropy import chunked_loss, cross_entropy

if TYPE_CHECKING:
    from regard.families.elmo import ELMo


@dataclass(frozen=True, kw_only=True)
class CausalLMConfig:
    name: Literal["causal_lm"] = "causal_lm"
    passes = 1


class CausalLMLoss:
    """The cross-entropy of every next token."""

    def __init__(self, config: CausalLMConfig) -> None:
        self.config = config

    def __call__(self, model: Model, batch: WindowBatch) -> Loss:
        total = _loss(model.head, model.hidden(batch.ids_BL, batch.documents), batch.next_BL)
        return Loss(total, {"nll": total}, batch.tokens)


@dataclass(frozen=True, kw_only=True)
class BidirectionalLMConfig:
    name: Literal["bidirectional_lm"] = "bidirectional_lm"
    passes = 2


class BidirectionalLMLoss:
    """The mean of the losses of both directions."""

    def __call__(self, model: ELMo, batch: WindowBatch) -> Loss:
        lengths_B = torch.full(batch.ids_BL.shape[:1], batch.ids_BL.shape[1], device=batch.ids_BL.device)
        ahead = _loss(model.head, model.read_ahead(batch.ids_BL)[-1], batch.next_BL)
        back = _loss(model.head, model.read_back(batch.next_BL, lengths_B)[-1], batch.ids_BL)
        total = (ahead + back) / 2
        return Loss(total, {"nll": total, "ahead": ahead, "back": back}, batch.tokens)


def _loss(head: VocabularyHead, x_BLD: Tensor, targets_BL: Tensor) -> Tensor:
    if (own := getattr(head, "loss", None)) is not None:  # of a head in clusters
        return own(x_BLD.flatten(0, 1), targets_BL.flatten())
    return chunked_loss(cross_entropy, head, x_BLD.flatten(0, 1), targets_BL.flatten(), fill=True)
