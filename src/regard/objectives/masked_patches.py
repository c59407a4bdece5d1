"""Masked patches: restore the pixels of patches that a model was not shown.

He et al. 2022 (MAE), section 3: of each image a random set of patches is hidden, `mask_rate` of all; the loss is the mean squared
error over the numbers of hidden patches alone. With `normalised` a patch counts relative to its own mean and deviation, as is
best in the paper (table 1d): what a patch shows matters then, not how bright it is.

Which patches are hidden is drawn on the device from torch's generator, which training seeds by the number of the step; in
validation, and for pictures, from a seed of its own, the same each time.

Dims: B batch, Y X rows and columns of pixels, C colours, G cells, S of them shown, P numbers of a patch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from regard.core.config import Bounds, check_bounds
from regard.core.rng import derive_seed
from regard.objectives.base import Loss

VARIANCE = 1e-6  # added to that of a patch


@dataclass(frozen=True, kw_only=True)
class MaskedPatchesConfig:
    name: Literal["masked_patches"] = "masked_patches"
    mask_rate: Annotated[float, Bounds(0, 1, above=True, below=True, example="0.75")] = 0.75
    normalised: bool = True  # by the mean and the deviation of each patch
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class MaskedPatchesLoss:
    def __init__(self, config: MaskedPatchesConfig, augment: Callable[[Tensor], Tensor] | None = None) -> None:
        """Keep the settings; `augment` changes the images to train on."""
        self.config, self.augment = config, augment

    def __call__(self, model: Any, batch: Any) -> Loss:
        image_BYXC = batch.images()
        if model.training and self.augment is not None:
            image_BYXC = self.augment(image_BYXC)
        target_BGP = model.targets(image_BYXC)
        images, cells, _ = target_BGP.shape
        device = image_BYXC.device
        noise_BG = torch.rand(images, cells, device=device) if model.training else fixed_noise(images, cells).to(device)
        return self.of(model, image_BYXC, noise_BG, target_BGP)

    def of(self, model: Any, image_BYXC: Tensor, noise_BG: Tensor, target_BGP: Tensor) -> Loss:
        """Return the loss with the cells of least noise shown, summed over images."""
        shown_BS = shown(noise_BG, self.config.mask_rate)
        found_BGP = model(image_BYXC, shown_BS).float()
        if self.config.normalised:
            target_BGP = normalised(target_BGP)
        error_BG = (found_BGP - target_BGP).square().mean(-1)
        hidden_BG = torch.ones_like(error_BG).scatter(1, shown_BS, 0.0)
        return Loss((error_BG * hidden_BG).sum() / (error_BG.shape[1] - shown_BS.shape[1]), {}, len(error_BG))


def shown(noise_BG: Tensor, mask_rate: float) -> Tensor:
    """Return shown_BS, the cells with the least noise; at least one is shown and one hidden."""
    cells = noise_BG.shape[1]
    kept = min(max(1, int(cells * (1 - mask_rate))), max(1, cells - 1))
    return noise_BG.argsort(1)[:, :kept]


def normalised(patches_BGP: Tensor) -> Tensor:
    """Return each patch with mean 0 and variance 1."""
    variance_BG1, mean_BG1 = torch.var_mean(patches_BGP, -1, keepdim=True)
    return (patches_BGP - mean_BG1) / (variance_BG1 + VARIANCE).sqrt()


def fixed_noise(images: int, cells: int, seed: int = 0) -> Tensor:
    """Return noise_BG that is the same each time."""
    return torch.rand(images, cells, generator=torch.Generator().manual_seed(derive_seed(seed, "masks")))
