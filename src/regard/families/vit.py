"""ViT: an image is cut into patches, which a Transformer's encoder reads as it reads words.

Dosovitskiy et al. 2021, "An image is worth 16x16 words". Blocks normalise first, and a norm follows the last.

    Ti    12 layers, width  192,  3 heads      B    12 layers, width  768, 12 heads      H    32 layers, width 1280, 16 heads
    S     12 layers, width  384,  6 heads      L    24 layers, width 1024, 16 heads      feed-forward 4 x width

Its relatives are choices of the same parts:

    ViT-Lite     Hassani et al. 2021    small images: patch=4, 7 layers, width 256, 4 heads, feed-forward 512
    CVT          the same               pooling=sequence, class_token=false
    CCT          the same               tokens=convolutions in place of patches

Differs from the papers in: no dropout by default; matrices start from a normal distribution with deviation 0.02, cut off at two
deviations, as DeiT's do. The published CVT and CCT normalise the residual stream once more inside each block, and their queries,
keys and values have no bias.

Dims: B batch, Y X rows and columns of pixels, C colours, M tokens, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.core.config import Count
from regard.core.errors import UserError
from regard.families.base import Family, Sizes
from regard.model.block import BodyConfig, NormEpsilon, Stack
from regard.model.heads import LinearHead
from regard.model.layers import Activation
from regard.model.visibility import View
from regard.model.visibility.parse import parse_visibility
from regard.model.vision.pooling import ImagePooling, SequencePooling, initialise_truncated
from regard.model.vision.positions import GridRotary
from regard.model.vision.tokens import TokenEmbedding, TokenSettings, grid_of

POSITIONS = ("learned", "sinusoidal", "rotary", "none")


@dataclass(frozen=True, kw_only=True)
class ViTConfig(BodyConfig, TokenSettings):
    family: Literal["vit"] = "vit"
    width: Count = 768
    heads: Count = 12
    layers: Count = 12
    feedforward: Count = 3072
    activation: Activation = "gelu"
    norm_placement: Literal["pre", "post"] = "pre"
    norm_epsilon: NormEpsilon = 1e-6
    dropout: float = 0.0
    position: str = "learned"
    image_size: Count = 224
    antialias: bool = False  # average neighbours where positions are interpolated for a smaller image
    pooling: ImagePooling = "class"
    class_token: bool = True
    deviation: float = 0.02  # of matrices as they are drawn; a narrow model learns sooner with more, up to 1 / sqrt(width)

    packable = False  # images lie side by side

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_tokens()
        if self.position not in POSITIONS:
            raise UserError(f"model.position={self.position} is not for images; choose one of: {', '.join(POSITIONS)}.")
        if self.maximum_length != BodyConfig.maximum_length:
            raise UserError(f"model.maximum_length={self.maximum_length} is for texts; images have model.image_size.")
        if self.position == "rotary" and (self.key_width % 4 or self.rotary_scaling != "none"):
            raise UserError(
                f"model.position=rotary of an image needs heads whose width ({self.key_width}) divides by 4, and "
                "model.rotary_scaling=none: coordinates are stretched by themselves."
            )
        if self.position == "sinusoidal" and self.width % 4:
            raise UserError(f"model.width={self.width} must be a multiple of 4: a row and a column share it in waves.")
        if self.pooling == "class" and not self.class_token:
            raise UserError("model.class_token=false leaves model.pooling=class nothing to read; take mean or sequence.")
        if not 0 < self.deviation < 1:
            raise UserError(f"model.deviation={self.deviation} must be above 0 and below 1, such as 0.02.")
        if self.antialias and self.position not in ("learned", "sinusoidal"):
            raise UserError(f"model.antialias=true is for vectors of positions; model.position={self.position} has none.")

    @property
    def extra_tokens(self) -> tuple[str, ...]:
        """Return the names of the learned tokens in front of those of the image."""
        return ("class",) if self.class_token else ()

    @property
    def grid(self) -> tuple[int, int]:
        """Return how many tokens an image of `image_size` has from top to bottom and from left to right."""
        return grid_of(self, self.image_size, self.image_size)

    @property
    def context(self) -> int:
        """Return the tokens of an image of `image_size`, learned ones included."""
        return self.grid[0] * self.grid[1] + len(self.extra_tokens)

    @property
    def summary(self) -> str:
        cells = f"patches of {self.patch}" if self.tokens == "patches" else f"{self.token_layers} convolutions"
        return f"{super().summary}, {self.grid[0]} x {self.grid[1]} {cells}, pooling {self.pooling}"


class ViT(nn.Module):
    classes: LinearHead
    distilled: LinearHead

    def __init__(self, config: ViTConfig, classes: int = 0, seed: int = 0, heads: Sequence[str] = ("classes",)) -> None:
        """With no classes it has no heads, and gives vectors alone. Each of the `heads` reads one pooled vector."""
        super().__init__()
        c = self.config = config
        self.visibility = parse_visibility(c.visibility)
        self.embed = TokenEmbedding(c, c.extra_tokens)
        scheme = GridRotary(c.key_width, c.rotary_base) if c.position == "rotary" else None
        self.encoder = Stack(c, c.layers, "encoder", position=scheme)
        if classes:
            self.pool = SequencePooling(c.width, name="pooling") if c.pooling == "sequence" else None
            for name in heads:
                self.add_module(name, LinearHead(c.width, classes))
        self.heads = tuple(heads) if classes else ()
        initialise_truncated(self, seed, c.deviation)

    def forward(self, image_BYXC: Tensor) -> Tensor:
        """logits_BC; of several heads their mean. x_BMD of a model without heads."""
        if not self.heads:
            return self.hidden(image_BYXC)
        found = list(self.outputs(image_BYXC).values())
        return found[0] if len(found) == 1 else torch.stack(found).mean(0)

    def outputs(self, image_BYXC: Tensor, scored: int | None = None) -> dict[str, Tensor]:
        """Return the logits_BC of every head by its name."""
        x_BMD = self.hidden(image_BYXC)
        return {name: self.get_submodule(name)(self.pooled(x_BMD, n)) for n, name in enumerate(self.heads)}

    def hidden(self, image_BYXC: Tensor, kept_BM: Tensor | None = None) -> Tensor:
        """x_BMD of all tokens, the learned ones first; with kept_BM, of these cells alone, which see each other alone."""
        x_BMD, at_BM2 = self.embed(image_BYXC, kept_BM)
        return self.encoder(x_BMD, self._view(x_BMD, at_BM2))

    def pooled(self, x_BMD: Tensor, token: int = 0) -> Tensor:
        """x_BD: what a head reads; where learned tokens are read, the vector of this one."""
        if self.config.pooling == "class":
            return x_BMD[:, token]
        cells_BMD = x_BMD[:, len(self.embed.extra) :]
        return cells_BMD.mean(1) if self.pool is None else self.pool(cells_BMD)

    def _view(self, x_BMD: Tensor, at_BM2: Tensor | None) -> View:
        batch, tokens, _ = x_BMD.shape
        view = self.visibility.over(tokens, tokens, batch=batch, device=x_BMD.device, mask=self.config.compares)
        return view if at_BM2 is None else replace(view, places=lambda: (at_BM2, at_BM2))


def image_inputs(config: Any, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor]:
    """Return (image_BYXC,)."""
    return (torch.randint(256, (batch, config.image_size, config.image_size, config.colours), dtype=torch.uint8),)


READS_IMAGES = frozenset({"image_classification", "attention", "blocks"})
FAMILY = Family(
    name="vit",
    config=ViTConfig,
    build=lambda config, sizes, seed: ViT(config, sizes.heads.classes, seed),
    inputs=image_inputs,
    capabilities=READS_IMAGES,
)
