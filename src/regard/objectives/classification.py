"""Classification: predict the label of a text and, with a GPT, its tokens as well (Radford et al. 2018, equations 3 to 5).

    L = -log p(label | text) + language * mean over the text's tokens of -log p(token | those before it)

The paper found that the second term, with a weight of 0.5, helps on large data sets and not on small ones. It needs a causal
model. Label smoothing as in `seq2seq.py`: the target is 1 - e for the right label, with e spread evenly over all labels.
`r_drop` adds R-Drop (`seq2seq.py`).

Where classes have different sizes, `balance = "weights"` weights a text by N / (C * texts of its class): rare classes are then
predicted more often, rightly and wrongly. Validation uses the same weights.

Regression: predict a number for a text, such as the similarity of two sentences.

    L = (score - (number - mean) / deviation)^2 / 2

which is, up to a constant, -log p of a normal distribution around the score with standard deviation 1. Always predicting the mean
has a loss of 0.5 on training texts. Devlin et al. 2019 fine-tune for STS-B in this way.

Dims: T tokens, N texts, C classes, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Bounds, Fraction, check_bounds
from regard.core.packing import IGNORED, Packing
from regard.data.batching.labelled import LabelledBatch
from regard.families.classifier import Classifier
from regard.objectives.base import Loss
from regard.objectives.chunked_cross_entropy import chunked_loss
from regard.objectives.seq2seq import RDrop, r_drop_divergence


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig:
    name: Literal["classification"] = "classification"
    smoothing: Fraction = 0.0
    language: Annotated[float, Bounds(0, zero="off", example="0.5")] = (
        0.0  # the weight of the language-model term; 0.5 in the paper, 0 is off
    )
    balance: Literal["none", "weights"] = "none"
    r_drop: RDrop = 0.0

    @property
    def passes(self) -> int:
        """Forward passes of a batch in a training step."""
        return 2 if self.r_drop else 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class ClassificationLoss:
    """The cross-entropy of labels, with the optional terms of the config in training."""

    def __init__(self, config: ClassificationConfig, weights_C: Tensor | None = None) -> None:
        """Keep the settings; `weights_C` weights the texts of each class, None: all by 1."""
        self.smoothing, self.language, self.r_drop = config.smoothing, config.language, config.r_drop
        self.weights_C = weights_C

    def __call__(self, model: Classifier, batch: LabelledBatch) -> Loss:
        if not model.training:
            _, logits_NC = classify(model, batch)
            nll = self._nll(logits_NC, batch.labels_N, 0.0)
            predicted_N = logits_NC.argmax(-1)
            return Loss(nll, {"nll": nll, "accuracy": (predicted_N == batch.labels_N).sum()}, batch.tokens, predicted_N)
        total, logits_NC = self._once(model, batch)
        if self.r_drop:
            again, other_NC = self._once(model, batch)
            total = (total + again) / 2 + self.r_drop * r_drop_divergence(logits_NC, other_NC, batch.labels_N != IGNORED)
        return Loss(total, {}, batch.tokens)

    def _once(self, model: Classifier, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Return the loss of one forward pass, and its logits_NC."""
        x_BLD, logits_NC = classify(model, batch)
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


def classify(model: Classifier, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
    """Return hidden vectors x_BLD and logits_NC of a batch."""
    x_BLD = model.hidden(batch.ids_BL, batch.words, batch.segments_BL)
    return x_BLD, model.scores(x_BLD, batch.words).float()


def language_loss(model: Classifier, x_BLD: Tensor, batch: LabelledBatch) -> Tensor:
    """Return -log p of a token, averaged over each text and summed over texts.

    The first token is given, all others are targets.
    """
    next_T, weights_T = batch.ids_BL.roll(-1, 1).flatten(), _loss_weights(batch).flatten()
    targets_T2 = torch.stack([next_T.float(), weights_T], -1)
    assert model.causal, "only a causal body predicts the next token"
    return chunked_loss(_weighted_cross_entropy, model.body.head, x_BLD.flatten(0, 1), targets_T2, fill=True)


def _loss_weights(batch: LabelledBatch) -> Tensor:
    """Return the weight of each position: 1 over the targets of its text; 0 for the last token of a text and for padding."""
    if isinstance(batch.words, Packing):
        targets_N = (batch.words.starts_N.diff() - 1).masked_fill(batch.labels_N == IGNORED, 0)
        targets, place = targets_N[batch.words.ids_T], batch.words.positions_T
    else:
        targets = batch.words[:, None] - 1  # type: ignore[index]
        place = torch.arange(batch.ids_BL.shape[1], device=batch.ids_BL.device)
    return (place < targets) / targets.clamp(min=1).float()


def _weighted_cross_entropy(logits_TV: Tensor, targets_T2: Tensor) -> Tensor:
    """Return the weighted sum of token losses; ids are passed as floats, which are exact up to 16 million."""
    ids_T, weights_T = targets_T2.unbind(-1)
    return (F.cross_entropy(logits_TV.float(), ids_T.long(), reduction="none") * weights_T).sum()


@dataclass(frozen=True, kw_only=True)
class RegressionConfig:
    name: Literal["regression"] = "regression"
    passes = 1
    language = 0.0


class RegressionLoss:
    """Half the squared error in standard deviations."""

    def __init__(self, deviation: float = 1.0) -> None:
        self.deviation = deviation  # standard deviation of the labels: reported errors are in their unit

    def __call__(self, model: Classifier, batch: LabelledBatch) -> Loss:
        """Return the loss; `labels_N` are numbers in standard deviations, and the model has one score a text."""
        predicted_N = model(batch.ids_BL, batch.words, batch.segments_BL).float().squeeze(-1)
        error_N = predicted_N - batch.labels_N
        error_N = error_N.masked_fill(batch.labels_N == IGNORED, 0.0)
        total = error_N.square().sum() / 2
        if model.training:
            return Loss(total, {}, batch.tokens)
        return Loss(total, {"nll": total, "off_by": error_N.abs().sum() * self.deviation}, batch.tokens, predicted_N)
