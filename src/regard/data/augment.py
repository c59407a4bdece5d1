"""Augmentation: training images changed at random, a whole batch at a time, on the device that the model is on.

    flip, crop        mirrored and moved, as bytes, by one look-up                     the usual ones of CIFAR-10
    resized crop      a part becomes the whole                                         Szegedy et al. 2015, section 6
    RandAugment       `randaugment.py`                                                 Cubuk et al. 2020
    erasing           a rectangle becomes noise                                        Zhong et al. 2020
    Mixup             l x + (1 - l) x', labels alike, l from Beta(a, a)                Zhang et al. 2018
    CutMix            a rectangle of x' in x, labels by area                           Yun et al. 2019

Every random number is drawn from torch's generator of the device, which the training seeds by the number of the step
(`core/rng.py`): a run that was killed and goes on draws what it would have drawn. Nothing waits for the host and no shape
depends on a random number, so that a step can be captured. Where Mixup and CutMix are both on, each image has one of them; each
image has its own l.

Images are mixed with those of the batch in reverse order, as timm does.

Dims: B batch, Y X rows and columns, C colours, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.augment_config import AugmentSettings
from regard.data.randaugment import rand_augment, resample

ERASED = (0.02, 1 / 3)  # of the area
STRETCHED = 0.3  # and its inverse: height by width of an erased rectangle
RATIO = 3 / 4  # and its inverse: of a resized crop


@dataclass(frozen=True)
class Augment:
    """Change a batch of images, and make targets of its labels: probabilities of the classes."""

    settings: AugmentSettings
    classes: int
    smoothing: float = 0.0

    def __call__(self, image_BYXC: Tensor, labels_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return image_BYXC, numbers from 0 to 255, and target_BK."""
        s = self.settings
        if s.flip or s.crop:
            image_BYXC = flip_and_crop(image_BYXC, s.flip, s.crop)
        if s.resized_crop or s.policy or s.erasing or s.mixes:
            image_BYXC = image_BYXC.float()
        if s.resized_crop:
            image_BYXC = resized_crop(image_BYXC, s.resized_crop)
        if s.policy:
            image_BYXC = rand_augment(image_BYXC, s.policy)
        if s.erasing:
            image_BYXC = erase(image_BYXC, s.erasing)
        target_BK = smoothed(labels_B, self.classes, self.smoothing)
        return mix(image_BYXC, target_BK, s.mixup, s.cutmix) if s.mixes else (image_BYXC, target_BK)


def smoothed(labels_B: Tensor, classes: int, smoothing: float) -> Tensor:
    """Return target_BK: 1 - e for the right class, with e spread evenly over all."""
    return F.one_hot(labels_B, classes).float() * (1 - smoothing) + smoothing / classes


def flip_and_crop(image_BYXC: Tensor, flip: bool, most: int) -> Tensor:
    """Mirror every second image, and move each by up to `most` pixels; what comes in at the edges mirrors the image."""
    batch, high, wide, _ = image_BYXC.shape
    device = image_BYXC.device
    rows_BY, columns_BX = (torch.arange(size, device=device).expand(batch, size) for size in (high, wide))
    if flip:
        mirrored_B1 = torch.rand(batch, 1, device=device) < 0.5
        columns_BX = torch.where(mirrored_B1, wide - 1 - columns_BX, columns_BX)
    if most:
        down_B1, right_B1 = torch.randint(-most, most + 1, (2, batch, 1), device=device)
        rows_BY, columns_BX = mirror(rows_BY + down_B1, high), mirror(columns_BX + right_B1, wide)
    return image_BYXC[torch.arange(batch, device=device)[:, None, None], rows_BY[:, :, None], columns_BX[:, None, :]]


def mirror(places: Tensor, size: int) -> Tensor:
    """Return places inside of 0 to size - 1: those beyond an edge mirrored at it, the edge itself not repeated."""
    period = max(1, 2 * (size - 1))
    return size - 1 - (size - 1 - places.remainder(period)).abs()


def resized_crop(image_BYXC: Tensor, least: float) -> Tensor:
    """Enlarge a part of each image to its whole size: of `least` to all of its area, of a ratio from 3:4 to 4:3."""
    batch, device = len(image_BYXC), image_BYXC.device
    area_B, ratio_B = torch.rand(2, batch, device=device)
    area_B, ratio_B = least + (1 - least) * area_B, torch.exp((2 * ratio_B - 1) * log(1 / RATIO))
    wide_B, high_B = (area_B * ratio_B).sqrt().clamp(max=1), (area_B / ratio_B).sqrt().clamp(max=1)
    # Of coordinates from -1 to 1: the middle of the part, so that it lies inside.
    x_B, y_B = (2 * torch.rand(2, batch, device=device) - 1) * torch.stack([1 - wide_B, 1 - high_B])
    zero_B = torch.zeros_like(x_B)
    return resample(image_BYXC, torch.stack([wide_B, zero_B, x_B, zero_B, high_B, y_B], -1).view(batch, 2, 3), "border")


def erase(image_BYXC: Tensor, share: float) -> Tensor:
    """Fill a rectangle with noise in this share of the images."""
    batch, high, wide, _ = image_BYXC.shape
    chance_B, area_B, ratio_B = torch.rand(3, batch, device=image_BYXC.device)
    area_B = (ERASED[0] + (ERASED[1] - ERASED[0]) * area_B) * (chance_B < share)
    ratio_B = torch.exp((2 * ratio_B - 1) * log(1 / STRETCHED))
    is_erased_BYX = rectangles((area_B * ratio_B).sqrt(), (area_B / ratio_B).sqrt(), high, wide)
    return torch.where(is_erased_BYX[..., None], 255 * torch.rand_like(image_BYXC), image_BYXC)


def rectangles(high_B: Tensor, wide_B: Tensor, rows: int, columns: int, centred: bool = False) -> Tensor:
    """Return is_inside_BYX of a rectangle of each image, of these shares of its sides, at a random place.

    It lies inside of the image; with `centred`, its middle does, and what is outside is cut off.
    """
    high_B, wide_B = (share_B.clamp(max=1) for share_B in (high_B, wide_B))
    place_B2 = torch.rand(len(high_B), 2, device=high_B.device)
    inside = []
    for share_B, place_B, size in ((high_B, place_B2[:, 0], rows), (wide_B, place_B2[:, 1], columns)):
        length_B = (share_B * size).round()
        begin_B = (place_B * size - length_B / 2).round() if centred else (place_B * (size - length_B + 1)).floor()
        at_N = torch.arange(size, device=high_B.device)
        inside.append((at_N >= begin_B[:, None]) & (at_N < (begin_B + length_B)[:, None]))
    return inside[0][:, :, None] & inside[1][:, None, :]


def mix(image_BYXC: Tensor, target_BK: Tensor, mixup: float, cutmix: float) -> tuple[Tensor, Tensor]:
    """Mix each image and its target with another of the batch, by Mixup or by CutMix; 0 is off."""
    batch, high, wide, _ = image_BYXC.shape
    device, other_BYXC, other_BK = image_BYXC.device, image_BYXC.flip(0), target_BK.flip(0)
    cut_B = torch.full((batch,), not mixup, device=device)
    if mixup and cutmix:
        cut_B = torch.rand(batch, device=device) < 0.5
    kept_B = torch.ones(batch, device=device)
    mixed_BYXC = image_BYXC
    if mixup:
        share_B = beta(mixup, batch, device).where(~cut_B, 1.0)
        mixed_BYXC, kept_B = torch.lerp(other_BYXC, image_BYXC, share_B[:, None, None, None]), share_B
    if cutmix:
        side_B = (1 - beta(cutmix, batch, device)).clamp(min=0).sqrt() * cut_B
        is_other_BYX = rectangles(side_B, side_B, high, wide, centred=True)
        mixed_BYXC = torch.where(is_other_BYX[..., None], other_BYXC, mixed_BYXC)
        kept_B = torch.where(cut_B, 1 - is_other_BYX.float().mean((1, 2)), kept_B)
    return mixed_BYXC, torch.lerp(other_BK, target_BK, kept_B[:, None])


def beta(alpha: float, batch: int, device: torch.device) -> Tensor:
    """Draw shares from Beta(alpha, alpha), one of each image."""
    concentration_B2 = torch.full((batch, 2), alpha, device=device)
    return torch._sample_dirichlet(concentration_B2)[:, 0]
