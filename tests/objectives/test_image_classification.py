"""The loss of labelled images is its formula: with soft targets, with two outputs, and with a teacher of both kinds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.data.augment import Augment
from regard.data.augment_config import AugmentSettings
from regard.data.batching.images import ImageBatch, LabelledImages, make_batch
from regard.families import build_model
from regard.families.base import Heads
from regard.families.deit import DeiTConfig
from regard.objectives.image_classification import (
    ImageClassificationConfig,
    ImageClassificationLoss,
    ImageDistillationConfig,
    cross_entropy,
)

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
LABELS = np.array([0, 2, 1, 1, 0])


class Fixed(nn.Module):
    """Says the same logits of every batch, by one output or by two."""

    def __init__(self, *logits_BK: Tensor) -> None:
        super().__init__()
        self.said = nn.ParameterList(nn.Parameter(given) for given in logits_BK)

    def outputs(self, image_BYXC: Tensor) -> dict[str, Tensor]:
        return dict(zip(("classes", "distilled"), self.said))

    def forward(self, image_BYXC: Tensor) -> Tensor:
        return torch.stack(list(self.said)).mean(0)


def logits(seed: int) -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))


def batch() -> ImageBatch:
    return make_batch(LabelledImages.of(IMAGES, LABELS), np.arange(5))


def loss(
    config: ImageClassificationConfig | ImageDistillationConfig, model: nn.Module, teacher: nn.Module | None = None
) -> float:
    objective = ImageClassificationLoss(config, Augment(AugmentSettings(), 3, config.smoothing), teacher)
    found: float = objective(model.train(), batch()).total.item()
    return found


def test_the_loss_of_labels_is_torchs_cross_entropy_with_its_smoothing() -> None:
    for smoothing in (0.0, 0.1):
        expected = F.cross_entropy(logits(1), torch.from_numpy(LABELS), reduction="sum", label_smoothing=smoothing)
        assert loss(ImageClassificationConfig(smoothing=smoothing), Fixed(logits(1))) == pytest.approx(expected.item(), rel=1e-5)
    soft = logits(3).softmax(-1)
    torch.testing.assert_close(cross_entropy(logits(1), soft), F.cross_entropy(logits(1), soft, reduction="sum"))


def test_two_outputs_without_a_teacher_learn_the_same_labels() -> None:
    both = [F.cross_entropy(logits(n), torch.from_numpy(LABELS), reduction="sum").item() for n in (1, 2)]
    assert loss(ImageClassificationConfig(), Fixed(logits(1), logits(2))) == pytest.approx(sum(both) / 2, rel=1e-5)


def test_hard_distillation_is_touvrons_equation_3() -> None:
    truth = F.cross_entropy(logits(1), torch.from_numpy(LABELS), reduction="sum")
    taught = F.cross_entropy(logits(2), logits(3).argmax(-1), reduction="sum")
    config = ImageDistillationConfig(teacher="somebody")
    assert loss(config, Fixed(logits(1), logits(2)), Fixed(logits(3))) == pytest.approx(((truth + taught) / 2).item(), rel=1e-5)


def test_soft_distillation_is_touvrons_equation_2() -> None:
    truth = F.cross_entropy(logits(1), torch.from_numpy(LABELS), reduction="sum").item()
    student, teacher = (logits(n).double() / 3 for n in (2, 3))
    taught = 9 * (teacher.softmax(-1) * (teacher.log_softmax(-1) - student.log_softmax(-1))).sum().item()
    config = ImageDistillationConfig(teacher="somebody", distillation="soft", weight=0.1)
    found = loss(config, Fixed(logits(1), logits(2)), Fixed(logits(3)))
    assert found == pytest.approx(0.9 * truth + 0.1 * taught, rel=1e-5)


def test_a_student_with_one_output_learns_both_with_it() -> None:
    truth = F.cross_entropy(logits(1), torch.from_numpy(LABELS), reduction="sum")
    taught = F.cross_entropy(logits(1), logits(3).argmax(-1), reduction="sum")
    config = ImageDistillationConfig(teacher="somebody")
    assert loss(config, Fixed(logits(1)), Fixed(logits(3))) == pytest.approx(((truth + taught) / 2).item(), rel=1e-5)


def test_outside_of_training_the_mean_of_both_outputs_counts_and_nothing_is_changed_at_random() -> None:
    augment = Augment(AugmentSettings(flip=True, mixup=1.0, erasing=1.0), 3)
    objective = ImageClassificationLoss(ImageDistillationConfig(teacher="somebody"), augment, Fixed(logits(3)))
    found = objective(Fixed(logits(1), logits(2)).eval(), batch())
    mean = (logits(1) + logits(2)) / 2
    expected = F.cross_entropy(mean, torch.from_numpy(LABELS), reduction="sum")
    assert found.parts["nll"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert found.parts["accuracy"].item() == (mean.argmax(-1) == torch.from_numpy(LABELS)).sum()
    assert found.parts["agrees"].item() == (mean.argmax(-1) == logits(3).argmax(-1)).sum()
    assert found.predicted_N is not None
    assert torch.equal(found.predicted_N, mean.argmax(-1))


def test_each_head_of_a_deit_learns_from_its_own_teacher() -> None:
    """With weight 1 labels teach nothing, and the class head gets no gradient."""
    config = DeiTConfig(width=16, heads=2, layers=1, feedforward=16, image_size=8, patch=4)
    student, teacher = (build_model(config, n, vocabulary=0, heads=Heads(words=False, classes=3)) for n in (1, 2))
    distil = ImageDistillationConfig(teacher="somebody", weight=1.0)
    objective = ImageClassificationLoss(distil, Augment(AugmentSettings(), 3), teacher)
    objective(student.train(), batch()).total.backward()
    grads = {name: p.grad.abs().sum().item() for name, p in student.named_parameters() if p.grad is not None}
    assert grads["classes.project.weight"] == 0
    assert grads["distilled.project.weight"] > 0
    assert not any(p.requires_grad or p.grad is not None for p in teacher.parameters())
    assert not teacher.training


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"teacher": ""}, {"weight": 0.0}, {"weight": 1.5}, {"temperature": 0.0}, {"smoothing": 1.0}):
        with pytest.raises(UserError):
            ImageDistillationConfig(**{"teacher": "somebody"} | wrong)  # type: ignore[arg-type]
