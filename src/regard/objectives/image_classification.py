"""Image classification: predict the label of an image, alone or with a teacher's help.

    L = -sum of t_k log p(k | image)                  targets t are labels, smoothed, or mixed by Mixup and CutMix

With a teacher (Touvron et al. 2021, section 4; Hinton et al. 2015), w being its weight and y its prediction for the same
augmented image; the second term is that of the student's `distilled` output, which a DeiT has, or of its only one:

    hard    (1 - w) CE(classes, t) + w CE(distilled, argmax y)
    soft    (1 - w) CE(classes, t) + w T^2 KL(softmax(y / T) || softmax(distilled / T))

Outside of training, the prediction of a model with two outputs is the softmax of the mean of both logits.

Dims: B batch, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.config import Bounds, Fraction, check_bounds
from regard.core.errors import UserError
from regard.data.augment import Augment
from regard.data.batching.images import ImageBatch
from regard.model.layers import without_autocast
from regard.objectives.base import Loss
from regard.objectives.distillation import soft_loss


@dataclass(frozen=True, kw_only=True)
class ImageClassificationConfig:
    name: Literal["image_classification"] = "image_classification"
    smoothing: Fraction = 0.0
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


@dataclass(frozen=True, kw_only=True)
class ImageDistillationConfig:
    name: Literal["image_distillation"] = "image_distillation"
    teacher: str = ""  # a run that classifies images, or a Hugging Face folder that does (hf:NAME on its hub)
    distillation: Literal["hard", "soft"] = "hard"  # the student learns the teacher's best class, or all its probabilities
    weight: Annotated[float, Bounds(0, 1, above=True)] = 0.5  # of the teacher; the labels have the rest
    temperature: Annotated[float, Bounds(0, above=True, example="3")] = 3.0  # of soft distillation
    smoothing: Fraction = 0.0
    passes = 1

    def __post_init__(self) -> None:
        if not self.teacher:
            raise UserError(
                "objective.teacher is empty; give a run that classifies images, such as runs/convnet-shapes, or a folder."
            )
        check_bounds(self, "objective.")


class ImageClassificationLoss:
    """The cross-entropy of labels and, with a teacher, of what it says. The teacher moves to the device of the first batch."""

    def __init__(
        self,
        config: ImageClassificationConfig | ImageDistillationConfig,
        augment: Augment | None = None,
        teacher: nn.Module | None = None,
    ) -> None:
        """Keep the settings; `augment` makes what is trained on of images and labels."""
        self.config, self.augment = config, augment
        self.teacher = None if teacher is None else teacher.eval().requires_grad_(False)

    def __call__(self, model: Any, batch: ImageBatch) -> Loss:
        """Return the loss in training; else the sum of -log p(label), how many are right, and the labels predicted."""
        image_BYXC, labels_B = batch.images(), batch.labels_B
        if not model.training:
            logits_BK = model(image_BYXC).float()
            nll, predicted_B = F.cross_entropy(logits_BK, labels_B, reduction="sum"), logits_BK.argmax(-1)
            parts = {"nll": nll, "accuracy": (predicted_B == labels_B).sum()}
            if self.teacher is not None:
                parts["agrees"] = (predicted_B == self._taught(image_BYXC).argmax(-1)).sum()
            return Loss(nll, parts, batch.tokens, predicted_B)
        with torch.no_grad(), without_autocast(image_BYXC.device.type):
            assert self.augment is not None, "training needs targets"
            image_BYXC, target_BK = self.augment(image_BYXC, labels_B)
        said = {name: logits_BK.float() for name, logits_BK in model.outputs(image_BYXC).items()}
        if self.teacher is None:
            each = torch.stack([cross_entropy(logits_BK, target_BK) for logits_BK in said.values()])
            return Loss(each.mean(), {}, batch.tokens)
        taught = self._teaches(said.get("distilled", said["classes"]), self._taught(image_BYXC))
        weight = self.config.weight  # type: ignore[union-attr]
        return Loss((1 - weight) * cross_entropy(said["classes"], target_BK) + weight * taught, {}, batch.tokens)

    @torch.no_grad()
    def _taught(self, image_BYXC: Tensor) -> Tensor:
        """Return the teacher's logits_BK."""
        assert self.teacher is not None
        if next(self.teacher.parameters()).device != image_BYXC.device:
            self.teacher.to(image_BYXC.device)
        found: Tensor = self.teacher(image_BYXC)
        return found.float()

    def _teaches(self, logits_BK: Tensor, taught_BK: Tensor) -> Tensor:
        c = self.config
        assert isinstance(c, ImageDistillationConfig)
        if c.distillation == "hard":
            return F.cross_entropy(logits_BK, taught_BK.argmax(-1), reduction="sum")
        return soft_loss(logits_BK, taught_BK, c.temperature).sum()


def cross_entropy(logits_BK: Tensor, target_BK: Tensor) -> Tensor:
    """Return -sum of t log p over classes and images."""
    return -(target_BK * logits_BK.log_softmax(-1)).sum()
