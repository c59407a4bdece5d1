"""A masked autoencoder of images: a ViT encodes a few patches, and a small decoder restores all others from them.

He et al. 2022, "Masked autoencoders are scalable vision learners". The encoder reads the patches that are shown, a quarter, and
nothing in place of the others: it is the bottleneck, and training costs a quarter of attention to whole images. The decoder gets
what the encoder made of each patch at its place and one learned vector, the mask token, at every other place, and writes the
pixels of each. Which patches are shown is the objective's choice (`objectives/masked_patches.py`). Afterwards the decoder is
thrown away: a ViT that begins with such a run takes its encoder (`task.init_from`), whose tensors have the same names.

    base    12 layers, width 768, 12 heads; decoder 8 layers, width 512, 16 heads

Differs from the paper in: waves are computed where they are needed, not stored; no matrix starts by Xavier's rule, all as a
ViT's do.

Dims: B batch, Y X rows and columns of pixels, C colours, G cells, S of them shown, P numbers of a patch, D width.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.core.config import Count
from regard.core.errors import UserError
from regard.families.base import Family, Sizes
from regard.families.vit import ViT, ViTConfig, image_inputs
from regard.model.block import BodyConfig, Stack
from regard.model.layers import Linear
from regard.model.visibility import full
from regard.model.vision.pooling import initialise_truncated
from regard.model.vision.positions import Grid, GridVectors
from regard.model.vision.tokens import grid_of

SHOWN = 4  # of so many patches, one is shown where a model is only counted


@dataclass(frozen=True, kw_only=True)
class ViTMAEConfig(ViTConfig):
    family: Literal["vit_mae"] = "vit_mae"  # type: ignore[assignment]
    position: str = "sinusoidal"
    decoder_width: Count = 512
    decoder_layers: Count = 8
    decoder_heads: Count = 16
    decoder_feedforward: Count = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens != "patches":
            raise UserError("model.tokens=convolutions cannot be restored: they overlap; a masked autoencoder has patches.")
        if self.grid == (1, 1):
            raise UserError(f"model.patch={self.patch} is the whole image, and there is nothing to restore it from; give less.")
        if self.decoder_width % 4:
            raise UserError(f"model.decoder_width={self.decoder_width} must be a multiple of 4: rows and columns share it.")
        self.decoder  # noqa: B018  refuses widths that heads do not share

    @property
    def decoder(self) -> BodyConfig:
        """Return the settings of the decoder's blocks, which are as the encoder's where no key is their own."""
        shared = ("activation", "norm_epsilon", "norm", "feedforward_kind", "bias", "dropout", "attention_dropout")
        return BodyConfig(
            width=self.decoder_width,
            layers=self.decoder_layers,
            heads=self.decoder_heads,
            feedforward=self.decoder_feedforward,
            norm_placement="pre",
            position="none",
            **{name: getattr(self, name) for name in shared},
        )

    @property
    def body_settings(self) -> ViTConfig:
        """Return the settings of the ViT that goes on with the encoder."""
        return ViTConfig(**{field.name: getattr(self, field.name) for field in fields(ViTConfig) if field.name != "family"})


class Decoder(nn.Module):
    """Restores all patches from vectors of some."""

    def __init__(self, config: ViTMAEConfig, extra: int) -> None:
        super().__init__()
        c, self.extra = config, extra
        self.narrow = Linear(c.width, c.decoder_width)
        self.mask_token = nn.Parameter(torch.zeros(c.decoder_width))
        self.vectors = GridVectors("sinusoidal", c.decoder_width, Grid(*c.grid), extra)
        self.stack = Stack(c.decoder, c.decoder_layers, "decoder")
        self.pixels = Linear(c.decoder_width, c.patch**2 * c.colours)

    def forward(self, x_BMD: Tensor, shown_BS: Tensor, grid: Grid) -> Tensor:
        """patches_BGP, from vectors of the learned tokens and of the cells that are shown."""
        x_BMD, extra = self.narrow(x_BMD), self.extra
        places_BSD = shown_BS[..., None].expand(-1, -1, x_BMD.shape[-1])
        cells_BGD = self.mask_token.to(x_BMD.dtype).expand(len(x_BMD), grid.cells, -1).scatter(1, places_BSD, x_BMD[:, extra:])
        where_MD = self.vectors(grid)
        assert where_MD is not None
        whole_BMD = torch.cat([x_BMD[:, :extra], cells_BGD], 1) + where_MD.to(x_BMD.dtype)
        batch, tokens, _ = whole_BMD.shape
        view = full.over(tokens, tokens, batch=batch, device=x_BMD.device)
        return self.pixels(self.stack(whole_BMD, view)[:, extra:])


class MaskedAutoencoder(ViT):
    """A ViT without heads, and its decoder."""

    config: ViTMAEConfig

    def __init__(self, config: ViTMAEConfig, seed: int = 0) -> None:
        super().__init__(config, 0, seed)
        self.decoder = Decoder(config, len(config.extra_tokens))
        initialise_truncated(self.decoder, seed + 1, config.deviation)

    def forward(self, image_BYXC: Tensor, shown_BS: Tensor) -> Tensor:  # type: ignore[override]
        """patches_BGP of all cells, restored from those with the numbers shown_BS."""
        grid = grid_of(self.config, image_BYXC.shape[1], image_BYXC.shape[2])
        return self.decoder(self.hidden(image_BYXC, shown_BS), shown_BS, grid)

    def outputs(self, image_BYXC: Tensor, shown_BS: Tensor, scored: int | None = None) -> dict[str, Tensor]:  # type: ignore[override]
        return {"pixels": self(image_BYXC, shown_BS)}

    def targets(self, image_BYXC: Tensor) -> Tensor:
        """patches_BGP: the numbers that an image has for the model."""
        return self.embed.cells.numbers(image_BYXC)


def _inputs(config: Any, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor]:
    """Return (image_BYXC, shown_BS), with the first quarter of the cells shown."""
    (image_BYXC,) = image_inputs(config, sizes, batch, length, source)
    return image_BYXC, torch.arange(max(1, Grid(*config.grid).cells // SHOWN)).expand(batch, -1)


FAMILY = Family(
    name="vit_mae",
    config=ViTMAEConfig,
    build=lambda config, sizes, seed: MaskedAutoencoder(config, seed),
    inputs=_inputs,
    capabilities=frozenset({"masked_image_modeling", "attention", "blocks"}),
)
