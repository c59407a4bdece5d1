"""Classification: say what a text is; with a GPT, while predicting its words too (Radford et al. 2018, equations 3 to 5).

    L = -log p(label | text) + language * mean over the text's tokens of -log p(token | those before it)

The paper found that the second term, with a weight of 0.5, helps on large data sets and not on small ones. It is for a body that
reads forwards only. Label smoothing as in translation: the aim is 1 - e for the right label, with e spread evenly over all; and
`r_drop` as there (`r_drop.py`), for few labels.

Where classes are uneven, `balance = "weights"` has a text count for N / (C * texts of its class): rare classes are then found
more often, and frequent ones taken for them more often too. Validation counts the same way.

Dims: T tokens, N texts, C classes, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED, Packing
from regard.data.batching.labelled import LabelledBatch
from regard.families.classifier import Classifier
from regard.objectives.base import Loss
from regard.objectives.chunked_cross_entropy import vocabulary_loss
from regard.objectives.r_drop import check_r_drop, divergence


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig:
    name: Literal["classification"] = "classification"
    smoothing: float = 0.0
    language: float = 0.0  # the weight of predicting the text's words; 0.5 in the paper, 0 is off
    balance: Literal["none", "weights"] = "none"
    r_drop: float = 0.0

    @property
    def passes(self) -> int:
        """How often a batch goes through the model in a step of training."""
        return 2 if self.r_drop else 1

    def __post_init__(self) -> None:
        check_r_drop(self.r_drop)
        if not 0 <= self.smoothing < 1:
            raise UserError(f"objective.smoothing={self.smoothing} must be at least 0 and less than 1.")
        if not 0 <= self.language < float("inf"):
            raise UserError(f"objective.language={self.language} must be 0 (off) or more, such as 0.5.")


class ClassificationLoss:
    def __init__(self, config: ClassificationConfig, weights_C: Tensor | None = None) -> None:
        """`weights_C` is what a text of each class counts for; 1 where there are none."""
        self.smoothing, self.language, self.r_drop = config.smoothing, config.language, config.r_drop
        self.weights_C = weights_C

    def __call__(self, model: Classifier, batch: LabelledBatch) -> Loss:
        if not model.training:
            _, logits_NC = _read(model, batch)
            nll = self._nll(logits_NC, batch.labels_N, 0.0)
            said_N = logits_NC.argmax(-1)
            return Loss(nll, {"nll": nll, "accuracy": (said_N == batch.labels_N).sum()}, batch.tokens, said_N)
        total, logits_NC = self._once(model, batch)
        if self.r_drop:
            again, other_NC = self._once(model, batch)
            total = (total + again) / 2 + self.r_drop * divergence(logits_NC, other_NC, batch.labels_N != IGNORED)
        return Loss(total, {}, batch.tokens)

    def _once(self, model: Classifier, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """The loss of one pass, and its logits_NC."""
        x_BLD, logits_NC = _read(model, batch)
        total = self._nll(logits_NC, batch.labels_N, self.smoothing)
        if self.language:
            total = total + self.language * language_loss(model, x_BLD, batch)
        return total, logits_NC

    def _nll(self, logits_NC: Tensor, labels_N: Tensor, smoothing: float) -> Tensor:
        if self.weights_C is None:
            return F.cross_entropy(logits_NC, labels_N, reduction="sum", label_smoothing=smoothing, ignore_index=IGNORED)
        self.weights_C = self.weights_C.to(labels_N.device)
        nll_N = F.cross_entropy(logits_NC, labels_N, reduction="none", label_smoothing=smoothing, ignore_index=IGNORED)
        return nll_N @ self.weights_C[labels_N.clamp(min=0)]


def _read(model: Classifier, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
    """x_BLD and logits_NC"""
    x_BLD = model.hidden(batch.ids_BL, batch.words, batch.segments_BL)
    return x_BLD, model.scores(x_BLD, batch.words).float()


def language_loss(model: Classifier, x_BLD: Tensor, batch: LabelledBatch) -> Tensor:
    """-log p of a token, averaged over each text and summed over texts. The first token is given, the last is an aim too."""
    next_T, shares_T = batch.ids_BL.roll(-1, 1).flatten(), _shares(batch).flatten()
    aims_T2 = torch.stack([next_T.float(), shares_T], -1)
    assert model.causal, "only a causal body predicts the next token"
    return vocabulary_loss(_shared, model.body.head, x_BLD.flatten(0, 1), aims_T2, fill=True)


def _shares(batch: LabelledBatch) -> Tensor:
    """What each place counts for: 1 over the aims of its text; 0 for the last of a text, for padding and for filler."""
    if isinstance(batch.words, Packing):
        aims_N = (batch.words.starts_N.diff() - 1).masked_fill(batch.labels_N == IGNORED, 0)
        aims, place = aims_N[batch.words.ids_T], batch.words.positions_T
    else:
        aims, place = batch.words[:, None] - 1, torch.arange(batch.ids_BL.shape[1], device=batch.ids_BL.device)  # type: ignore[index]
    return (place < aims) / aims.clamp(min=1).float()


def _shared(logits_TV: Tensor, aims_T2: Tensor) -> Tensor:
    """Every token's loss times what it counts for; the ids travel as floats, which are exact up to 16 million."""
    ids_T, shares_T = aims_T2.unbind(-1)
    return (F.cross_entropy(logits_TV.float(), ids_T.long(), reduction="none") * shares_T).sum()
