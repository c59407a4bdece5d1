"""Sequence to sequence: predict every target token from the source and the tokens before it, with label smoothing.

Vaswani et al. 2017, section 5.4: the target is not 1 for the right token but 1 - e, with e spread evenly over the vocabulary
(Szegedy et al. 2016). It costs perplexity and gains BLEU, so validation reports the unsmoothed loss `nll`.

R-Drop (Liang et al. 2021): pass a batch twice with different dropout and penalise the divergence of the two predictions. With
predictions p and q, a (KL(p|q) + KL(q|p)) / 4 is added to the mean of their two losses: a strong regulariser for small data, at
twice the time of a step. Differs from the paper by a factor of two: losses are averaged, so that they stay comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Bounds, Fraction, check_bounds
from regard.data.batching.pairs import Batch, PackedBatch
from regard.objectives.base import Loss, Model
from regard.objectives.chunked_cross_entropy import chunked_loss

if TYPE_CHECKING:
    from regard.data.batching.captions import ImageBatch  # imports image libraries, which translation does not need

IGNORED = -100  # a target that counts for nothing
RDrop = Annotated[float, Bounds(0, zero="off", example="5")]


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    name: Literal["seq2seq"] = "seq2seq"
    smoothing: Fraction = 0.1
    r_drop: RDrop = 0.0

    @property
    def passes(self) -> int:
        """Forward passes of a batch in a training step."""
        return 2 if self.r_drop else 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class Seq2SeqLoss:
    """The smoothed cross-entropy of targets, with R-Drop in training if asked."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        self.smoothing, self.r_drop = config.smoothing, config.r_drop

    def __call__(self, model: Model, batch: Batch | PackedBatch | ImageBatch) -> Loss:
        targets_N = batch.target_out_BL.flatten()
        targets_N = targets_N.masked_fill(targets_N == batch.pad, IGNORED)
        if model.training and self.r_drop:
            x_2ND = model.hidden(*batch.twice().inputs).flatten(0, 1).unflatten(0, (2, -1))
            return Loss(chunked_loss(self._with_r_drop, model.head, x_2ND, targets_N), {}, batch.tokens)
        x_ND = model.hidden(*batch.inputs).flatten(0, 1)
        total = chunked_loss(self._smoothed, model.head, x_ND, targets_N)
        if model.training:
            return Loss(total, {}, batch.tokens)
        nll = chunked_loss(_cross_entropy, model.head, x_ND, targets_N) if self.smoothing else total
        return Loss(total, {"nll": nll}, batch.tokens)

    def _smoothed(self, logits_NV: Tensor, targets_N: Tensor) -> Tensor:
        return _cross_entropy(logits_NV, targets_N, self.smoothing)

    def _with_r_drop(self, logits_2NV: Tensor, targets_N: Tensor) -> Tensor:
        total = _cross_entropy(logits_2NV.flatten(0, 1), targets_N.repeat(2), self.smoothing) / 2
        return total + self.r_drop * r_drop_divergence(logits_2NV[0], logits_2NV[1], targets_N != IGNORED)


def _cross_entropy(logits_NV: Tensor, targets_N: Tensor, smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(logits_NV.float(), targets_N, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)


def r_drop_divergence(one_NC: Tensor, other_NC: Tensor, counted_N: Tensor) -> Tensor:
    """Return (KL(p|q) + KL(q|p)) / 4 of two sets of logits, summed over the rows where `counted_N` is true."""
    p, q = one_NC.float().log_softmax(-1), other_NC.float().log_softmax(-1)
    return ((p.exp() - q.exp()) * (p - q)).masked_fill(~counted_N[..., None], 0.0).sum() / 4
