"""Distillation: a small student learns the predictions of a large teacher besides the labels.

Hinton, Vinyals & Dean 2015, section 2: at a temperature T above 1 the teacher's probabilities of wrong labels carry information
too. Their gradient shrinks with T^2, so the loss is multiplied by T^2. Sanh et al. 2019 (DistilBERT) add the cosine between
hidden states.

L = soft * T^2 KL(softmax(t / T) || softmax(s / T)) + hard * -log p(label | text) + cosine * mean of 1 - cos(x, x')

s and t are the scores of student and teacher, x and x' their last vectors of a token. A text without a label has no second
term. The teacher runs on the same batch without dropout and without gradient; it is not a part of the student or of its
optimizer.

Differs from the papers in: the terms are those of a classifier, DistilBERT's were those of masked words; states are compared at
the end of both stacks only, and must be of one width.

Dims: N texts, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Bounds, check_bounds
from regard.core.errors import UserError
from regard.core.packing import IGNORED, Packing, Words
from regard.data.batching.labelled import LabelledBatch
from regard.families.classifier import Classifier
from regard.objectives.base import Loss
from regard.objectives.classification import classify

Weight = Annotated[float, Bounds(0, zero="off")]


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    name: Literal["distillation"] = "distillation"
    teacher: str = ""  # a run that classifies, or a Hugging Face folder that does (hf:NAME on its hub)
    inherit: bool = True  # initialise the student with evenly spaced layers of its teacher; else by task.init_from, or at random
    temperature: Annotated[float, Bounds(0, above=True, example="2")] = 2.0
    soft: Weight = 1.0  # the weight of the teacher's predictions; DistilBERT's three weights were 5, 2 and 1
    hard: Weight = 0.4  # of the labels, where there are any
    cosine: Weight = 0.2  # of the direction of each token's last vector; 0 where student and teacher differ in width
    passes = 1
    language = 0.0

    def __post_init__(self) -> None:
        if not self.teacher:
            raise UserError("objective.teacher is empty; give a run that classifies, such as runs/bert-classify, or a folder.")
        check_bounds(self, "objective.")
        if not (self.soft or self.cosine):
            raise UserError("objective.soft=0 and objective.cosine=0 leave the teacher nothing to teach; set one of them to 1.")


class DistillationLoss:
    """The weighted sum of the three terms. The teacher is never changed; it moves to the device of the first batch."""

    def __init__(self, config: DistillationConfig, teacher: Classifier) -> None:
        self.config, self.teacher = config, teacher.eval().requires_grad_(False)

    def __call__(self, model: Classifier, batch: LabelledBatch) -> Loss:
        """Return the weighted sum in training, else loss and accuracy by labels, and how often student and teacher agree."""
        x_BLD, logits_NC = classify(model, batch)
        with torch.no_grad():
            target_BLD, targets_NC = classify(self._teacher_on(batch.ids_BL.device), batch)
        is_text_N, hard_N = batch.labels_N != IGNORED, _hard(logits_NC, batch.labels_N)
        if not model.training:
            right, agrees = (
                ((logits_NC.argmax(-1) == said) & is_text_N).sum() for said in (batch.labels_N, targets_NC.argmax(-1))
            )
            nll = hard_N.sum()
            return Loss(nll, {"nll": nll, "accuracy": right, "agrees": agrees}, batch.tokens, logits_NC.argmax(-1))
        c = self.config
        each_N = c.soft * soft_loss(logits_NC, targets_NC, c.temperature) + c.hard * hard_N
        if c.cosine:
            each_N = each_N + c.cosine * cosine_loss(x_BLD, target_BLD, batch.words)
        return Loss(each_N.masked_fill(~is_text_N, 0.0).sum(), {}, batch.tokens)

    def _teacher_on(self, device: torch.device) -> Classifier:
        if next(self.teacher.parameters()).device != device:
            self.teacher.to(device)
        return self.teacher


def soft_loss(logits_NC: Tensor, targets_NC: Tensor, temperature: float) -> Tensor:
    """Return T^2 KL(targets || logits) of each text, both at this temperature."""
    student_NC, teacher_NC = ((scores_NC / temperature).log_softmax(-1) for scores_NC in (logits_NC, targets_NC))
    return temperature**2 * F.kl_div(student_NC, teacher_NC, reduction="none", log_target=True).sum(-1)


def _hard(logits_NC: Tensor, labels_N: Tensor) -> Tensor:
    """Return -log p(label) of each text, 0 where it has no label."""
    return F.cross_entropy(logits_NC, labels_N.where(labels_N >= 0, IGNORED), reduction="none", ignore_index=IGNORED)


def cosine_loss(x_BLD: Tensor, target_BLD: Tensor, words: Words) -> Tensor:
    """Return 1 - cosine of the two vectors of each token, averaged over each text."""
    distance_BL = 1 - F.cosine_similarity(x_BLD.float(), target_BLD.float(), dim=-1)
    if isinstance(words, Packing):
        sums_N = distance_BL.new_zeros(words.sequences).index_add(0, words.ids_T, distance_BL[0])
        return sums_N / words.starts_N.diff().clamp(min=1)
    if isinstance(words, Tensor):
        is_token_BL = torch.arange(x_BLD.shape[1], device=x_BLD.device) < words[:, None]
        return (distance_BL * is_token_BL).sum(1) / words
    raise TypeError("texts to classify must be one a row, or packed into one row")
