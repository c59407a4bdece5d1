"""Settings of how training images are changed at random: the keys of [data] that `augment.py` carries out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from regard.core.config import Bounds, check_bounds
from regard.core.errors import UserError
from regard.data.config import hint
from regard.data.image_config import ImagesConfig

POLICY = re.compile(r"m(?P<magnitude>\d+(\.\d+)?)-n(?P<number>\d)(-mstd(?P<deviation>\d+(\.\d+)?))?(-inc1)?")
HIGHEST = 10  # magnitude
Off = Annotated[float, Bounds(0, 1, zero="off")]


class RandAugment(NamedTuple):
    """How strong, how many operations an image, and the deviation of the strength."""

    magnitude: float
    number: int
    deviation: float


@dataclass(frozen=True, kw_only=True)
class AugmentSettings:
    """Operations on a training image, in this order; random numbers are drawn again each time the image is used."""

    flip: bool = False  # left and right, of every second image
    crop: Annotated[int, Bounds(0, zero="off")] = 0  # pixels that an image is moved by at most, in both directions; edges mirror
    resized_crop: Off = 0.0  # a part of the image becomes the whole, of at least this share of its area; ImageNet: 0.08
    randaugment: str = ""  # operations drawn for each image: m9-n2-mstd0.5 is magnitude 9, two of them, deviation 0.5
    erasing: Off = 0.0  # of this share of the images a rectangle becomes noise
    mixup: Annotated[float, Bounds(0, zero="off")] = 0.0  # two images are laid over each other; alpha of the Beta distribution
    cutmix: Annotated[float, Bounds(0, zero="off")] = 0.0  # a rectangle comes from another image; alpha
    repeats: Annotated[int, Bounds(1, 16)] = 1  # times that an image comes in a row, augmented otherwise

    def check_augmentation(self) -> None:
        """Refuse a policy that cannot be read."""
        if self.randaugment and self.policy is None:
            raise UserError(
                f"data.randaugment={self.randaugment} is not a policy; write magnitude from 0 to {HIGHEST}, number from 1 to 9 "
                "and, if wanted, a deviation, such as m9-n2-mstd0.5."
            )

    @property
    def policy(self) -> RandAugment | None:
        found = POLICY.fullmatch(self.randaugment)
        if found is None or float(found["magnitude"]) > HIGHEST or not int(found["number"]):
            return None
        return RandAugment(float(found["magnitude"]), int(found["number"]), float(found["deviation"] or 0))

    @property
    def mixes(self) -> bool:
        return bool(self.mixup or self.cutmix)


@dataclass(frozen=True, kw_only=True)
class LabelledImagesConfig(ImagesConfig, AugmentSettings):
    """Images with a label each, and how those to train on are changed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_augmentation()
        for key in ("train", "valid"):
            if not getattr(self, key) and (key == "train" or not self.valid_fraction) and self.train + self.valid:
                raise UserError(
                    f"data.{key} is empty; give a folder of images by class, a table of paths and labels, or "
                    f"builtin:shapes/{key}.{hint(key)}"
                )
        check_bounds(self, "data.")
