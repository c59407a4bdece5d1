"""Both ways: predict every word from those before it, and from those behind it (Peters et al. 2018, section 3.1).

    L = - sum over words of (log p(word | words before) + log p(word | words behind)) / 2

A window has one word more than is read: who reads ahead reads all but the last, who reads back all but the first, and each
predicts what the other has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.data.batching.windows import WindowBatch
from regard.families.elmo import ELMo
from regard.objectives.base import Loss
from regard.objectives.chunked_cross_entropy import cross_entropy, vocabulary_loss


@dataclass(frozen=True, kw_only=True)
class BidirectionalLMConfig:
    name: Literal["bidirectional_lm"] = "bidirectional_lm"
    passes = 2


class BidirectionalLMLoss:
    def __call__(self, model: ELMo, batch: WindowBatch) -> Loss:
        lengths_B = torch.full(batch.ids_BL.shape[:1], batch.ids_BL.shape[1], device=batch.ids_BL.device)
        ahead = _loss(model, model.read_ahead(batch.ids_BL)[-1], batch.next_BL)
        back = _loss(model, model.read_back(batch.next_BL, lengths_B)[-1], batch.ids_BL)
        total = (ahead + back) / 2
        return Loss(total, {"nll": total, "ahead": ahead, "back": back}, batch.tokens)


def _loss(model: ELMo, x_BLE: Tensor, aims_BL: Tensor) -> Tensor:
    return vocabulary_loss(cross_entropy, model.head, x_BLE.flatten(0, 1), aims_BL.flatten(), fill=True)
