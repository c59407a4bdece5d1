"""Answering: predict the answer to a question about an image among the answers of the training set.

Antol et al. 2015 (VQA), section 5: a question is a classification over the most frequent answers. Label smoothing as in
`seq2seq.py`. A question whose answer is no class counts nothing in training, and as wrong where accuracy is measured.

Dims: B questions, C answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F

from regard.core.config import Fraction, check_bounds
from regard.core.packing import IGNORED
from regard.data.batching.visual_questions import QuestionBatch
from regard.objectives.base import Loss


@dataclass(frozen=True, kw_only=True)
class AnsweringConfig:
    name: Literal["answering"] = "answering"
    smoothing: Fraction = 0.0
    passes = 1  # of a batch through the model in a step of training

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class AnsweringLoss:
    """The cross-entropy of answers."""

    def __init__(self, config: AnsweringConfig) -> None:
        self.smoothing = config.smoothing

    def __call__(self, model: Any, batch: QuestionBatch) -> Loss:
        logits_BC, answers_B = model(*batch.inputs).float(), batch.answers_B
        smoothing = self.smoothing if model.training else 0.0
        nll = F.cross_entropy(logits_BC, answers_B, reduction="sum", label_smoothing=smoothing, ignore_index=IGNORED)
        if model.training:
            return Loss(nll, {}, batch.tokens)
        predicted_B = logits_BC.argmax(-1)
        return Loss(nll, {"nll": nll, "accuracy": (predicted_B == answers_B).sum()}, batch.tokens, predicted_B)
