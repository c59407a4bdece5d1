"""Distillation: a small student learns what a large teacher makes of a text, not only what people called it.

Hinton, Vinyals & Dean 2015, section 2: at a temperature T above 1 the teacher's wrong answers, too, say something. Their gradient
shrinks with T^2, so that is multiplied back in. Sanh et al. 2019 (DistilBERT) add the cosine between hidden states.

    L = soft * T^2 KL(softmax(t / T) || softmax(s / T)) + hard * -log p(label | text) + cosine * mean of 1 - cos(x, x')

s and t are the scores of student and teacher, x and x' their last vectors of a token. A text without a label has no second term.
The teacher reads the same batch without dropout and without gradient; it belongs neither to the student nor to its optimizer.

Differs from the papers in: the terms are those of a classifier, DistilBERT's were those of masked words; states are compared at
the end of both stacks only, and must be of one width.

Dims: N texts, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED, Packing, Words
from regard.data.batching.labelled import LabelledBatch
from regard.families.classifier import Classifier
from regard.objectives.base import Loss

WEIGHTS = ("soft", "hard", "cosine")


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    name: Literal["distillation"] = "distillation"
    teacher: str = ""  # a run that classifies, or a Hugging Face folder that does (hf:NAME on its hub)
    inherit: bool = (
        True  # the student begins with layers of its teacher, evenly spaced; else as task.init_from says, or by chance
    )
    temperature: float = 2.0
    soft: float = 1.0  # the weight of the teacher's answers; DistilBERT's three weights were 5, 2 and 1
    hard: float = 0.4  # of the labels, where there are any
    cosine: float = 0.2  # of the direction of each token's last vector; 0 where student and teacher differ in width
    passes = 1
    language = 0.0

    def __post_init__(self) -> None:
        if not self.teacher:
            raise UserError("objective.teacher is empty; give a run that classifies, such as runs/bert-classify, or a folder.")
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"objective.temperature={self.temperature} must be a number above 0, such as 2.")
        for key in WEIGHTS:
            if not 0 <= getattr(self, key) < float("inf"):
                raise UserError(f"objective.{key}={getattr(self, key)} must be 0 (off) or more.")
        if not (self.soft or self.cosine):
            raise UserError("objective.soft=0 and objective.cosine=0 leave the teacher nothing to teach; set one of them to 1.")


class DistillationLoss:
    """`teacher` is read and never changed; it follows the first batch to its device."""

    def __init__(self, config: DistillationConfig, teacher: Classifier) -> None:
        self.config, self.teacher = config, teacher.eval().requires_grad_(False)

    def __call__(self, model: Classifier, batch: LabelledBatch) -> Loss:
        """In training the weighted sum. A model that is not is told how it does by the labels, and how often the two agree."""
        x_BLD, logits_NC = _read(model, batch)
        with torch.no_grad():
            aim_BLD, aims_NC = _read(self._teacher_on(batch.ids_BL.device), batch)
        is_text_N, hard_N = batch.labels_N != IGNORED, _hard(logits_NC, batch.labels_N)
        if not model.training:
            right, agrees = (((logits_NC.argmax(-1) == said) & is_text_N).sum() for said in (batch.labels_N, aims_NC.argmax(-1)))
            nll = hard_N.sum()
            return Loss(nll, {"nll": nll, "accuracy": right, "agrees": agrees}, batch.tokens, logits_NC.argmax(-1))
        c = self.config
        each_N = c.soft * soft_loss(logits_NC, aims_NC, c.temperature) + c.hard * hard_N
        if c.cosine:
            each_N = each_N + c.cosine * cosine_loss(x_BLD, aim_BLD, batch.words)
        return Loss(each_N.masked_fill(~is_text_N, 0.0).sum(), {}, batch.tokens)

    def _teacher_on(self, device: torch.device) -> Classifier:
        if next(self.teacher.parameters()).device != device:
            self.teacher.to(device)
        return self.teacher


def _read(model: Classifier, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
    """x_BLD and logits_NC."""
    x_BLD = model.hidden(batch.ids_BL, batch.words, batch.segments_BL)
    return x_BLD, model.scores(x_BLD, batch.words).float()


def soft_loss(logits_NC: Tensor, aims_NC: Tensor, temperature: float) -> Tensor:
    """T^2 KL(aims || logits) of each text, both softened."""
    said_NC, aimed_NC = ((scores_NC / temperature).log_softmax(-1) for scores_NC in (logits_NC, aims_NC))
    return temperature**2 * F.kl_div(said_NC, aimed_NC, reduction="none", log_target=True).sum(-1)


def _hard(logits_NC: Tensor, labels_N: Tensor) -> Tensor:
    """-log p(label) of each text, 0 where it has none."""
    return F.cross_entropy(logits_NC, labels_N.where(labels_N >= 0, IGNORED), reduction="none", ignore_index=IGNORED)


def cosine_loss(x_BLD: Tensor, aim_BLD: Tensor, words: Words) -> Tensor:
    """1 - cosine of each token's two vectors, averaged over each text."""
    apart_BL = 1 - F.cosine_similarity(x_BLD.float(), aim_BLD.float(), dim=-1)
    if isinstance(words, Packing):
        sums_N = apart_BL.new_zeros(words.sequences).index_add(0, words.ids_T, apart_BL[0])
        return sums_N / words.starts_N.diff().clamp(min=1)
    if isinstance(words, Tensor):
        is_word_BL = torch.arange(x_BLD.shape[1], device=x_BLD.device) < words[:, None]
        return (apart_BL * is_word_BL).sum(1) / words
    raise TypeError("texts to classify come one a row, or packed into one row")
