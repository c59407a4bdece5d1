"""A small residual network of convolutions: the baseline beside a ViT, and a teacher for a DeiT.

He et al. 2016, "Deep residual learning for image recognition", in the short form that trains fastest on 32 x 32 pixels (ResNet-9
of DAWNBench; Jordan 2024, "94% on CIFAR-10 in 3.29 seconds on a single GPU", section 3): a stem, then stages of

    convolution 3 x 3, max-pooling 2, norm, activation        halves the image; as wide as the stage
    x + f(x), f: twice convolution 3 x 3, norm, activation    `layers` times

each stage twice as wide as the one before it, up to `width`; the maximum over all places, and one linear layer. Norms are batch
normalisation (Ioffe & Szegedy 2015). Unlike a ViT's, its first layers can only see neighbours, and see them alike everywhere: the
inductive bias that a ViT has to learn from data.

Differs from those networks in: no whitening layer, no label-dependent scaling, plain residual stages everywhere.

Dims: B batch, Y X rows and columns of pixels, C colours or channels, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.config import Bounds, Fraction, check_bounds
from regard.core.errors import UserError
from regard.families.base import Family, Sizes
from regard.model.heads import LinearHead
from regard.model.init import initialise
from regard.model.layers import ACTIVATIONS, Activation
from regard.model.vision import ImageSettings

NARROWEST = 8  # channels of a stem


@dataclass(frozen=True, kw_only=True)
class ConvNetConfig(ImageSettings):
    family: Literal["convnet"] = "convnet"
    width: Annotated[int, Bounds(8)] = 256  # channels of the last stage; each stage before it has half as many
    stages: Annotated[int, Bounds(1, 8)] = 3  # each halves the image
    layers: Annotated[int, Bounds(0, zero="no residual blocks", most=64)] = 1  # residual blocks of a stage
    activation: Activation = "gelu"
    dropout: Fraction = 0.0  # of the pooled vector

    packable = False  # images lie side by side
    context = None  # images have no length
    kept_of_source = carried = 0  # it writes nothing
    cell, attends, position = "convolutions", "", "none"

    def __post_init__(self) -> None:
        check_bounds(self, "model.")
        self.check_image()
        if self.width % (1 << (self.stages - 1)) or self.width >> (self.stages - 1) < NARROWEST:
            raise UserError(
                f"model.width={self.width} cannot be halved {self.stages - 1} times to {NARROWEST} channels or more; give a "
                f"multiple of {NARROWEST << (self.stages - 1)}, or fewer model.stages."
            )
        if self.image_size >> self.stages < 1:
            raise UserError(
                f"model.image_size={self.image_size} cannot be halved {self.stages} times; lower model.stages, or enlarge it."
            )

    @property
    def channels(self) -> list[int]:
        """Return the channels of the stem and of each stage."""
        widths = [self.width >> n for n in reversed(range(self.stages))]
        return [max(NARROWEST, widths[0] // 2), *widths]

    @property
    def depth(self) -> tuple[int, int]:
        return 1 + self.stages * (1 + 2 * self.layers), 0

    @property
    def kept_of_an_image(self) -> int:
        """Return about how many numbers training keeps of an image: three for each output of a convolution."""
        stem, *widths = self.channels
        kept, size = stem * self.image_size**2, self.image_size
        for width in widths:
            kept += width * size**2  # before pooling
            size //= 2
            kept += 2 * self.layers * width * size**2
        return 3 * kept

    @property
    def summary(self) -> str:
        blocks = f"{self.layers} residual block{'s' * (self.layers != 1)}"
        return f"{self.stages} stages of {blocks}, {self.channels[1]} to {self.width} channels, {self.activation}"


class ChannelNorm(nn.Module):
    """Batch normalisation of each channel, with a learned scale and shift."""

    MOMENTUM, EPSILON = 0.1, 1e-5

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean_C", torch.zeros(channels))
        self.register_buffer("variance_C", torch.ones(channels))
        self.mean_C: Tensor
        self.variance_C: Tensor

    def forward(self, x_BCYX: Tensor) -> Tensor:
        kept = self.mean_C, self.variance_C
        return F.batch_norm(x_BCYX, *kept, self.weight, self.bias, self.training, self.MOMENTUM, self.EPSILON)

    def extra_repr(self) -> str:
        return f"C={len(self.weight)}"


class Convolve(nn.Module):
    """Convolution 3 x 3, maybe max-pooling, norm, activation."""

    def __init__(self, inputs: int, outputs: int, activation: Activation, pool: bool = False) -> None:
        super().__init__()
        self.project = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = ChannelNorm(outputs)
        self.activation, self.pool = ACTIVATIONS[activation], pool

    def forward(self, x_BCYX: Tensor) -> Tensor:
        x_BCYX = self.project(x_BCYX)
        return self.activation(self.norm(F.max_pool2d(x_BCYX, 2) if self.pool else x_BCYX))


class Residual(nn.Module):
    def __init__(self, channels: int, activation: Activation) -> None:
        super().__init__()
        self.first, self.second = (Convolve(channels, channels, activation) for _ in range(2))

    def forward(self, x_BCYX: Tensor) -> Tensor:
        return x_BCYX + self.second(self.first(x_BCYX))


class Stage(nn.Module):
    def __init__(self, inputs: int, outputs: int, layers: int, activation: Activation) -> None:
        super().__init__()
        self.down = Convolve(inputs, outputs, activation, pool=True)
        self.blocks = nn.ModuleList(Residual(outputs, activation) for _ in range(layers))

    def forward(self, x_BCYX: Tensor) -> Tensor:
        x_BCYX = self.down(x_BCYX)
        for block in self.blocks:
            x_BCYX = block(x_BCYX)
        return x_BCYX


class ConvNet(nn.Module):
    def __init__(self, config: ConvNetConfig, classes: int = 0, seed: int = 0) -> None:
        """With no classes it has no head, and gives vectors alone."""
        super().__init__()
        c = self.config = config
        stem, *widths = c.channels
        self.stem = Convolve(c.colours, stem, c.activation)
        self.stages = nn.ModuleList(Stage(i, o, c.layers, c.activation) for i, o in zip([stem, *widths], widths))
        if classes:
            self.classes = LinearHead(c.width, classes, c.dropout)
        initialise(self, seed)

    def forward(self, image_BYXC: Tensor) -> Tensor:
        """logits_BC; x_BD of a network without a head."""
        (found,) = self.outputs(image_BYXC).values()
        return found

    def outputs(self, image_BYXC: Tensor, scored: int | None = None) -> dict[str, Tensor]:
        x_BD = self.hidden(image_BYXC)
        return {"classes": self.classes(x_BD)} if hasattr(self, "classes") else {"pooled": x_BD}

    def hidden(self, image_BYXC: Tensor) -> Tensor:
        """x_BD: of each channel its maximum over all places."""
        x_BCYX = self.config.as_numbers(image_BYXC, self.stem.project.weight.dtype).permute(0, 3, 1, 2)
        x_BCYX = self.stem(x_BCYX)
        for stage in self.stages:
            x_BCYX = stage(x_BCYX)
        return x_BCYX.amax((2, 3))


def _inputs(config: ConvNetConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor]:
    """Return (image_BYXC,)."""
    return (torch.randint(256, (batch, config.image_size, config.image_size, config.colours), dtype=torch.uint8),)


FAMILY = Family(
    name="convnet",
    config=ConvNetConfig,
    build=lambda config, sizes, seed: ConvNet(config, sizes.heads.classes, seed),
    inputs=_inputs,
    capabilities=frozenset({"image_classification"}),
)
