"""DeiT: a ViT with one more learned token, which is trained to answer as a teacher does.

Touvron et al. 2021, "Training data-efficient image transformers & distillation through attention", section 4. The distillation
token stands behind the class token and has a head of its own; the labels train the first head, a teacher's answers the second.
What the model says is the mean of both heads' logits, as its authors' code has it; the paper adds their
softmax outputs.

A DeiT that was trained without a teacher has no such token: it is a ViT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.core.errors import UserError
from regard.families.base import Family
from regard.families.vit import READS_IMAGES, ViT, ViTConfig, image_inputs

HEADS = ("classes", "distilled")


@dataclass(frozen=True, kw_only=True)
class DeiTConfig(ViTConfig):
    family: Literal["deit"] = "deit"  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling != "class":
            raise UserError(f"model.pooling={self.pooling} is for model.family=vit; each head of a deit reads its own token.")

    @property
    def extra_tokens(self) -> tuple[str, ...]:
        return "class", "distillation"


FAMILY = Family(
    name="deit",
    config=DeiTConfig,
    build=lambda config, sizes, seed: ViT(config, sizes.heads.classes, seed, HEADS),
    inputs=image_inputs,
    capabilities=READS_IMAGES,
)
