"""Masked language modelling: predict masked tokens and, optionally, whether text B follows text A.

    L = mean over masked words of -log p(word | passage) + mean over passages of -log p(B follows A, or not | passage)

Devlin et al. 2019, section 3.1. Only masked positions are scored, so the output layer costs a sixth of what it would for all.

Differs from the paper in: where passages have different lengths, the second mean is weighted by the tokens masked in each, so
that micro-batches add up to the batch.

Dims: N passages, M masked words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Bounds, check_bounds
from regard.core.packing import IGNORED
from regard.data.batching.masked import MaskedBatch
from regard.families.bert import BERT
from regard.objectives.base import Loss
from regard.objectives.chunked_cross_entropy import chunked_loss, cross_entropy

MaskRate = Annotated[float, Bounds(0, 1, above=True, below=True, example="0.15")]


@dataclass(frozen=True, kw_only=True)
class MaskedLMConfig:
    name: Literal["masked_lm"] = "masked_lm"
    mask_rate: MaskRate = 0.15  # of the tokens is masked
    whole_words: bool = False  # mask all tokens of a word together
    next_sentence: bool = False  # passages are two texts; predict whether the second follows the first
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class MaskedLMLoss:
    """The cross-entropy of masked tokens; outside training, `parts` also counts right tokens and right passages."""

    def __init__(self, config: MaskedLMConfig) -> None:
        self.next_sentence = config.next_sentence

    def __call__(self, model: BERT, batch: MaskedBatch) -> Loss:
        x_BLD = model.hidden(batch.ids_BL, batch.words, batch.segments_BL)
        x_MD = x_BLD.flatten(0, 1)[batch.masked_M]
        nll = chunked_loss(cross_entropy, model.head, x_MD, batch.targets_M, fill=True)
        parts, total = {"nll": nll}, nll
        if not model.training:
            with torch.no_grad():
                parts["right"] = chunked_loss(_right, model.head, x_MD, batch.targets_M, fill=True)
        if self.next_sentence:
            scores_N2 = model.next_sentence(model.pooler(x_BLD, batch.words)).float()
            each_N = F.cross_entropy(scores_N2, batch.strange_N, reduction="none", ignore_index=IGNORED)  # type: ignore[arg-type]
            total = total + (each_N * batch.wanted_N).sum()
            parts |= {"next_nll": each_N.sum(), "next_right": (scores_N2.argmax(-1) == batch.strange_N).sum()}
        return Loss(total, parts, batch.tokens)


def _right(logits_MV: Tensor, targets_M: Tensor) -> Tensor:
    return (logits_MV.argmax(-1) == targets_M).sum()
