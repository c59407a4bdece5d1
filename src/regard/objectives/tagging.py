"""Tagging: predict the tag of each word from the vector of its first token (Devlin et al. 2019, section 5.3).

    L = - sum over words of log p(tag | the first token in its context)

Only these vectors are scored, not the other tokens of a word, special tokens or padding. Label smoothing as in `seq2seq.py`:
the target is 1 - e for the right tag, with e spread evenly over all tags.

Dims: W words, C tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Fraction, check_bounds
from regard.data.batching.tagged import TaggedBatch
from regard.families.bert import BERT
from regard.families.elmo import ELMo
from regard.objectives.base import Loss


@dataclass(frozen=True, kw_only=True)
class TaggingConfig:
    name: Literal["tagging"] = "tagging"
    smoothing: Fraction = 0.0
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class TaggingLoss:
    """The cross-entropy of tags, smoothed in training."""

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
    """Return logits_WC of the words of a batch."""
    x_BLD = model.hidden(batch.ids_BL, batch.words)
    return model.tags(x_BLD.flatten(0, 1)[batch.places_W])
