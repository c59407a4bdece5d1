"""The loss of answers: torch's cross-entropy over questions whose answer is a class."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import UserError
from regard.data.batching.visual_questions import UNKNOWN, QuestionBatch
from regard.objectives.answering import AnsweringConfig, AnsweringLoss


class Constant(torch.nn.Module):
    """Answers with scores that are given."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(logits)

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.logits


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_unknown_answers_count_nothing_in_training_and_as_wrong_when_scored(smoothing: float) -> None:
    logits, answers = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([2, UNKNOWN, 0, 1])
    none = torch.zeros(4, 1, dtype=torch.long)
    batch = QuestionBatch(none, none[:, 0], none, none[:, 0], answers, 3)
    model, loss, known = Constant(logits), AnsweringLoss(AnsweringConfig(smoothing=smoothing)), torch.tensor([0, 2, 3])
    trained = loss(model.train(), batch)
    expected = F.cross_entropy(logits[known], answers[known], reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(trained.total.detach(), expected)
    assert trained.count == 3
    scored = loss(model.eval(), batch)
    torch.testing.assert_close(scored.parts["nll"].detach(), F.cross_entropy(logits[known], answers[known], reduction="sum"))
    assert scored.parts["accuracy"] == (logits.argmax(-1) == answers).sum()


def test_smoothing_is_a_share() -> None:
    with pytest.raises(UserError, match=r"objective.smoothing=1.5"):
        AnsweringConfig(smoothing=1.5)
