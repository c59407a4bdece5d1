"""Tagging: say what each word is, by the vector of its first piece (Devlin et al. 2019, section 5.3).

    L = - sum over words of log p(tag | the first piece in its context)

Only those vectors are scored: pieces that go on with a word, marks and padding are asked nothing. Label smoothing as in
translation: the aim is 1 - e for the right tag, with e spread evenly over all.

Dims: W words, C tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.tagged import TaggedBatch
from regard.families.bert import BERT
from regard.families.elmo import ELMo
from regard.objectives.base import Loss


@dataclass(frozen=True, kw_only=True)
class TaggingConfig:
    name: Literal["tagging"] = "tagging"
    smoothing: float = 0.0
    passes = 1

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise UserError(f"objective.smoothing={self.smoothing} must be at least 0 and less than 1.")


class TaggingLoss:
    def __init__(self, config: TaggingConfig) -> None:
        self.smoothing = config.smoothing

    def __call__(self, model: BERT | ELMo, batch: TaggedBatch) -> Loss:
        logits_WC = tag_scores(model, batch).float()
        if not model.training:
            nll = F.cross_entropy(logits_WC, batch.tags_W, reduction="sum")
            return Loss(nll, {"nll": nll, "right": (logits_WC.argmax(-1) == batch.tags_W).sum()}, batch.tokens)
        total = F.cross_entropy(logits_WC, batch.tags_W, reduction="sum", label_smoothing=self.smoothing)
        return Loss(total, {}, batch.tokens)


def tag_scores(model: BERT | ELMo, batch: TaggedBatch) -> Tensor:
    """logits_WC of the words that are asked for."""
    x_BLD = model.hidden(batch.ids_BL, batch.words)
    return model.tags(x_BLD.flatten(0, 1)[batch.places_W])
