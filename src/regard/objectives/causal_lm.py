"""Next token: predict every token from those before it (Radford et al. 2018, equation 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.batching.windows import WindowBatch
from regard.objectives.base import Loss, Model
from regard.objectives.chunked_cross_entropy import cross_entropy, vocabulary_loss


@dataclass(frozen=True, kw_only=True)
class CausalLMConfig:
    name: Literal["causal_lm"] = "causal_lm"
    passes = 1


class CausalLMLoss:
    def __init__(self, config: CausalLMConfig) -> None:
        self.config = config

    def __call__(self, model: Model, batch: WindowBatch) -> Loss:
        x_ND = model.hidden(batch.ids_BL, batch.documents).flatten(0, 1)
        total = vocabulary_loss(cross_entropy, model.head, x_ND, batch.next_BL.flatten(), fill=True)
        return Loss(total, {"nll": total}, batch.tokens)
