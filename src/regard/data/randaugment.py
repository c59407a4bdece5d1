"""RandAugment (Cubuk et al. 2020): a few operations on each image, drawn from a list, of one strength.

Fifteen operations, with the strengths of timm's `rand-m9-mstd0.5-inc1`, DeiT's policy: each grows with m, from 0 to 10.

    shear x, y        by up to 0.3 m/10              posterize       4 - 4 m/10 bits are kept
    translate x, y    by up to 0.45 m/10 of a side   solarize        values from 256 - 256 m/10 on are inverted
    rotate            by up to 30 m/10 degrees       solarize add    110 m/10 is added to values below 128
    brightness, contrast, colour, sharpness          times 1 +- 0.9 m/10, at least 0.1
    autocontrast, equalize, invert                   of no strength

An operation that was drawn is carried out on every second image; signs are drawn. The magnitude of an image is normal around m,
with the policy's deviation. All operations are carried out on all images of a batch, and each image takes its own: on small
images that costs less than sorting them, and no shape depends on a random number. Movements of one round are one matrix and one
resampling; what comes in is grey, 128. Grey images have no colour to change.

Dims: B batch, Y X rows and columns, C colours, V values from 0 to 255.
"""

from __future__ import annotations

from math import radians
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.augment_config import HIGHEST, RandAugment

MOVES = ("shear x", "shear y", "translate x", "translate y", "rotate")
PAINTS = ("autocontrast", "equalize", "invert", "posterize", "solarize", "solarize add")
ENHANCES = ("colour", "contrast", "brightness", "sharpness")
OPERATIONS = (*MOVES, *PAINTS, *ENHANCES)
CHANCE = 0.5  # that an operation which was drawn is carried out
GREY = (0.299, 0.587, 0.114)
FILL = 128.0


def rand_augment(image_BYXC: Tensor, policy: RandAugment) -> Tensor:
    """Change each image by `policy.number` operations, one after the other; numbers from 0 to 255 in and out."""
    batch, device = len(image_BYXC), image_BYXC.device
    for _ in range(policy.number):
        drawn_B = torch.randint(len(OPERATIONS), (batch,), device=device)
        drawn_B = torch.where(torch.rand(batch, device=device) < CHANCE, drawn_B, -1)  # none
        level_B = (policy.magnitude + policy.deviation * torch.randn(batch, device=device)).clamp(0, HIGHEST) / HIGHEST
        sign_B = torch.where(torch.rand(batch, device=device) < 0.5, -1.0, 1.0)
        image_BYXC = one_round(image_BYXC, drawn_B, level_B, sign_B)
    return image_BYXC


def one_round(image_BYXC: Tensor, drawn_B: Tensor, level_B: Tensor, sign_B: Tensor) -> Tensor:
    """Carry out on each image the operation of its number in OPERATIONS, none for -1; levels from 0 to 1."""

    def of(name: str) -> Tensor:
        return drawn_B == OPERATIONS.index(name)

    is_moved_B = (drawn_B >= 0) & (drawn_B < len(MOVES))
    moved_BYXC = resample(image_BYXC, movement(drawn_B, level_B * sign_B), "fill")
    found_BYXC = torch.where(_wide(is_moved_B), moved_BYXC, image_BYXC)
    for name in PAINTS:
        found_BYXC = torch.where(_wide(of(name)), paint(name, image_BYXC, level_B), found_BYXC)
    factor_B = (1 + 0.9 * level_B * sign_B).clamp(min=0.1)
    for name in ENHANCES:
        found_BYXC = torch.where(_wide(of(name)), enhance(name, image_BYXC, factor_B), found_BYXC)
    return found_BYXC


def _wide(x_B: Tensor) -> Tensor:
    return x_B[:, None, None, None]


# --- movements -------------------------------------------------------------------------------------------------------------
def movement(drawn_B: Tensor, signed_B: Tensor) -> Tensor:
    """Return matrix_B23 from a place of the new image to one of the old, in coordinates from -1 to 1; unmoved images' is 1."""

    def of(name: str) -> Tensor:
        return torch.where(drawn_B == MOVES.index(name), signed_B, 0.0)

    angle_B = radians(30) * of("rotate")
    cos_B, sin_B = angle_B.cos(), angle_B.sin()
    across = cos_B, 0.3 * of("shear x") - sin_B, 0.9 * of("translate x")
    down = 0.3 * of("shear y") + sin_B, cos_B, 0.9 * of("translate y")
    return torch.stack([*across, *down], -1).view(-1, 2, 3)


def resample(image_BYXC: Tensor, matrix_B23: Tensor, outside: Literal["fill", "border"]) -> Tensor:
    """Take each pixel of square images from where the matrix says, between pixels by linear interpolation."""
    image_BCYX = image_BYXC.permute(0, 3, 1, 2)
    grid_BYX2 = F.affine_grid(matrix_B23, list(image_BCYX.shape), align_corners=False)
    if outside == "border":
        return F.grid_sample(image_BCYX, grid_BYX2, padding_mode="border", align_corners=False).permute(0, 2, 3, 1)
    return (F.grid_sample(image_BCYX - FILL, grid_BYX2, align_corners=False) + FILL).permute(0, 2, 3, 1)


# --- operations on values --------------------------------------------------------------------------------------------------
def paint(name: str, image_BYXC: Tensor, level_B: Tensor) -> Tensor:
    """Map the values of images, by levels from 0 to 1."""
    level_B111 = _wide(level_B)
    match name:
        case "invert":
            return 255 - image_BYXC
        case "posterize":
            step_B111 = torch.exp2(4 + (4 * level_B111).floor())  # 8 less the bits that are kept
            return (image_BYXC / step_B111).floor() * step_B111
        case "solarize":
            return torch.where(image_BYXC < 256 - (256 * level_B111).floor(), image_BYXC, 255 - image_BYXC)
        case "solarize add":
            return torch.where(image_BYXC < 128, (image_BYXC + (110 * level_B111).floor()).clamp(max=255), image_BYXC)
        case "autocontrast":
            return autocontrast(image_BYXC)
        case _:
            return equalize(image_BYXC)


def autocontrast(image_BYXC: Tensor) -> Tensor:
    """Stretch the values of each colour to 0 and 255."""
    low_B11C, high_B11C = image_BYXC.amin((1, 2), keepdim=True), image_BYXC.amax((1, 2), keepdim=True)
    span_B11C = high_B11C - low_B11C
    return torch.where(span_B11C > 0, (image_BYXC - low_B11C) * (255 / span_B11C.clamp(min=1e-6)), image_BYXC).clamp(0, 255)


def equalize(image_BYXC: Tensor) -> Tensor:
    """Map the values of each colour so that all are about equally frequent, as Pillow does."""
    batch, high, wide, colours = image_BYXC.shape
    value_RN = image_BYXC.round().clamp(0, 255).long().permute(0, 3, 1, 2).reshape(batch * colours, high * wide)
    count_RV = torch.zeros(len(value_RN), 256, device=image_BYXC.device).scatter_add_(
        1, value_RN, torch.ones_like(value_RN).float()
    )
    last_R1 = count_RV.gather(1, value_RN.amax(1, keepdim=True))  # how many have the highest value
    step_R1 = ((high * wide - last_R1) / 255).floor()
    below_RV = count_RV.cumsum(1) - count_RV
    table_RV = ((below_RV + (step_R1 / 2).floor()) / step_R1.clamp(min=1)).floor().clamp(max=255)
    table_RV = torch.where(step_R1 > 0, table_RV, torch.arange(256, device=image_BYXC.device))
    return table_RV.gather(1, value_RN).view(batch, colours, high, wide).permute(0, 2, 3, 1)


def enhance(name: str, image_BYXC: Tensor, factor_B: Tensor) -> Tensor:
    """Move images away from a plain form of themselves, or towards it: by a factor that is 1 for no change."""
    match name:
        case "brightness":
            plain_BYXC = torch.zeros_like(image_BYXC)
        case "contrast":
            plain_BYXC = _grey(image_BYXC).mean((1, 2), keepdim=True).round().expand_as(image_BYXC)
        case "colour":
            plain_BYXC = _grey(image_BYXC).expand_as(image_BYXC)
        case _:
            plain_BYXC = _smooth(image_BYXC)
    return torch.lerp(plain_BYXC, image_BYXC, _wide(factor_B)).clamp(0, 255)


def _grey(image_BYXC: Tensor) -> Tensor:
    if image_BYXC.shape[-1] == 1:
        return image_BYXC
    red, green, blue = image_BYXC.unbind(-1)  # numbers of Python, since a captured graph may not copy a tensor from the host
    return (GREY[0] * red + GREY[1] * green + GREY[2] * blue).round()[..., None]


def _smooth(image_BYXC: Tensor) -> Tensor:
    """Average each pixel with its neighbours, itself five times; the outermost pixels stay as they are."""
    image_BCYX = image_BYXC.permute(0, 3, 1, 2)
    sum_BCYX = 9 * F.avg_pool2d(image_BCYX, 3, stride=1) + 4 * image_BCYX[:, :, 1:-1, 1:-1]
    smooth_BCYX = image_BCYX.clone()
    smooth_BCYX[:, :, 1:-1, 1:-1] = (sum_BCYX / 13).round()
    return smooth_BCYX.permute(0, 2, 3, 1)
