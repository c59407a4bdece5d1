"""One query at a time, in a loop, with the same keys and values: a mixer for one pass, whose keys and values learn after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from regard.model.mixers.additive import masked
from regard.model.recurrence.late import Late
from regard.model.visibility import View

if TYPE_CHECKING:
    from regard.model.mixers import Mixer


class OneByOne:
    """`score` gives the scores_BM of a q_BK with all keys, as `mixer` has them, whose weights these are."""

    folds = None

    def __init__(self, mixer: Mixer, score: Callable[[Tensor], Tensor], v_B1MK: Tensor) -> None:
        self.mixer, self.score, self.values = mixer, score, Late(v_B1MK[:, 0].mT)

    def mix(self, q_B11K: Tensor, k_B1MK: Tensor, v_B1MK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        scores_BM = masked(self.score(q_B11K[:, 0, 0]), None if view.mask is None else view.mask[:, 0, 0])
        context_B11K = self.values(F.dropout(scores_BM.softmax(-1), dropout))[:, None, None]
        return context_B11K if view.blind is None else context_B11K.masked_fill(view.blind, 0.0)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        return self.mixer.weights(q_BHLK, k_BHMK, sees_BHLM)
