"""Masked words: fill in the words that were taken out and, if asked, say whether B follows A (Devlin et al. 2019, section 3.1).

    L = mean over masked words of -log p(word | passage) + mean over passages of -log p(B follows A, or not | passage)

Only the masked positions are asked for, so the head and its words cost a sixth of what they would for every position.

Differs from the paper in: where passages have different lengths, the second mean is one by the words that are masked in each, so
that parts of a batch add up to the whole.

Dims: N passages, M masked words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.data.batching.masked import MaskedBatch
from regard.families.bert import BERT
from regard.objectives.base import Loss
from regard.objectives.chunked_cross_entropy import cross_entropy, vocabulary_loss


@dataclass(frozen=True, kw_only=True)
class MaskedLMConfig:
    name: Literal["masked"] = "masked"
    mask_rate: float = 0.15  # of the words
    whole_words: bool = False  # all pieces of a word together
    next_sentence: bool = False  # passages are two texts: does the second follow the first?
    passes = 1

    def __post_init__(self) -> None:
        check_share(self.mask_rate)


def check_share(share: float) -> None:
    if not 0 < share < 1:
        raise UserError(f"objective.mask_rate={share} must be between 0 and 1, such as 0.15.")


class MaskedLMLoss:
    """A model that is not in training is told by `parts` too: right answers of words, and of passages that are pairs."""

    def __init__(self, config: MaskedLMConfig) -> None:
        self.next_sentence = config.next_sentence

    def __call__(self, model: BERT, batch: MaskedBatch) -> Loss:
        x_BLD = model.hidden(batch.ids_BL, batch.words, batch.segments_BL)
        x_MD = x_BLD.flatten(0, 1)[batch.masked_M]
        nll = vocabulary_loss(cross_entropy, model.head, x_MD, batch.targets_M, fill=True)
        parts, total = {"nll": nll}, nll
        if not model.training:
            with torch.no_grad():
                parts["right"] = vocabulary_loss(_right, model.head, x_MD, batch.targets_M, fill=True)
        if self.next_sentence:
            scores_N2 = model.next_sentence(model.pooler(x_BLD, batch.words)).float()
            each_N = F.cross_entropy(scores_N2, batch.strange_N, reduction="none", ignore_index=IGNORED)  # type: ignore[arg-type]
            total = total + (each_N * batch.wanted_N).sum()
            parts |= {"next_nll": each_N.sum(), "next_right": (scores_N2.argmax(-1) == batch.strange_N).sum()}
        return Loss(total, parts, batch.tokens)


def _right(logits_MV: Tensor, targets_M: Tensor) -> Tensor:
    return (logits_MV.argmax(-1) == targets_M).sum()
