"""Image Transformer: a decoder over the pixels of an image, row by row, which says how probable each next one is.

Parmar et al. 2018. Each token sees those before it, or of these a neighbourhood alone: `model.visibility` is laid over causal.

    local 1-D   image-local-1d(256, 256)            its own block of 256 tokens and the 256 before it
    local 2-D   image-local-2d(96, 8, 24, 8, 24)    its own block of 8 rows and 24 columns and a margin, of rows 96 tokens wide

    CIFAR-10, as published    12 layers, width 512, feed-forward 2048, 4 heads, local 1-D of 256: 2.90 bits a dimension
    ImageGPT (Chen et al. 2020)  a palette of 512 colours, one vector a position (`grid=false`), rms norms, quick_gelu

A pixel is a grey level, three levels (red, green, blue) or a colour of a palette. What is predicted are the probabilities of all
levels, or a mixture of logistics (`model/vision/logistic.py`), of single colours or, `coupled`, of the three of a pixel, which is
one token then. The start token says the class. For super-resolution the pixels of a small image stand before it.

Differs from the paper in: the decoder itself reads a small image, where theirs has an encoder; 2-D blocks are drawn row by row
over the whole image, where theirs are drawn one after the other; the norm comes first, unless `norm_placement=post`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.core.config import Bounds, Count
from regard.core.errors import UserError
from regard.families.base import Family, Sizes
from regard.model.block import BodyConfig, Stack
from regard.model.embedding import Embed, VocabularyHead
from regard.model.init import initialise
from regard.model.kernels import decode_step as kernels
from regard.model.layers import without_autocast
from regard.model.position import attention_position
from regard.model.state.decoder import DecoderState, EncodedPrompt
from regard.model.state.kv_cache import Prompt
from regard.model.visibility import Visibility, causal
from regard.model.visibility.parse import parse_visibility
from regard.model.visibility.patterns import Local2D
from regard.model.vision.logistic import COUPLED, UNCOUPLED, log_probabilities, spread
from regard.model.vision.pixels import COLOURS, CoupledTokens, GridPositions, PixelOrder, after_prefix

BYTES = 256  # levels of a colour of a file
IN_VECTORS = ("sinusoidal", "learned")  # positions that are added to the input


@dataclass(frozen=True, kw_only=True)
class ImageTransformerConfig(BodyConfig):
    family: Literal["image_transformer"] = "image_transformer"
    layers: Count = 12
    norm_placement: Literal["pre", "post"] = "pre"
    image_size: Count = 32  # pixels: every image is made so wide and high
    pixels: Literal["grey", "rgb", "palette"] = "rgb"  # one level, three levels, or one of some colours that are learned
    levels: Annotated[int, Bounds(2)] = BYTES  # of a colour, or colours of the palette
    output: Literal["categorical", "logistic"] = "categorical"
    mixtures: Count = 10  # logistics of a mixture
    coupled: bool = False  # the three colours of a pixel are one token and come from one mixture
    classes: Annotated[int, Bounds(0, zero="unconditional")] = 0  # each has a start token of its own
    small: Annotated[int, Bounds(0, zero="none")] = 0  # side of a small image that is read first, for super-resolution
    grid: bool = True  # positions are those of rows and columns; false: of the sequence, as in ImageGPT

    packable = False  # images lie side by side

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_pixels()
        if self.small and (self.small >= self.image_size or self.image_size % self.small):
            raise UserError(
                f"model.small={self.small} is the side of a small image, of which model.image_size={self.image_size} must be a "
                f"multiple; give one of its divisors, such as {_divisor(self.image_size)}."
            )
        if self.maximum_length != type(self).maximum_length:
            raise UserError(
                f"model.maximum_length={self.maximum_length} is for texts; an image has as many tokens as model.image_size says: "
                "leave it out."
            )
        if not self.grid and self.position not in IN_VECTORS:
            raise UserError(f"model.grid=false is for model.position=learned or sinusoidal, not {self.position}; leave it out.")
        if self.grid and self.position in IN_VECTORS and self.width % 4:
            raise UserError(f"model.width={self.width} must be a multiple of 4: a row and a column share it in waves.")
        for pattern in _patterns(parse_visibility(self.visibility)):
            if isinstance(pattern, Local2D) and pattern.width != self.order.columns:
                raise UserError(
                    f"model.visibility={self.visibility} is for rows of {pattern.width} tokens, and an image of "
                    f"{self.image_size} x {self.image_size} pixels has {self.order.columns} in a row; begin with that number."
                )

    def _check_pixels(self) -> None:
        if self.pixels != "palette" and self.levels > BYTES:
            raise UserError(f"model.levels={self.levels} is more than the {BYTES} levels of a colour; give {BYTES} or fewer.")
        if self.levels > 32_768:
            raise UserError(f"model.levels={self.levels} colours are more than a palette may have, 32,768; give fewer.")
        if self.output == "logistic" and self.pixels == "palette":
            raise UserError(
                "model.output=logistic is for levels, which have an order, and colours of a palette have none; give "
                "model.output=categorical, or model.pixels=rgb."
            )
        if self.mixtures != type(self).mixtures and self.output != "logistic":
            raise UserError(f"model.mixtures={self.mixtures} is for model.output=logistic; give that too, or leave it out.")
        if self.coupled and (self.output != "logistic" or self.pixels != "rgb"):
            raise UserError("model.coupled=true is for model.output=logistic and model.pixels=rgb; give both, or leave it out.")

    @property
    def order(self) -> PixelOrder:
        """Return the sizes of an image as a sequence."""
        tokens = COLOURS if self.pixels == "rgb" and not self.coupled else 1
        return PixelOrder(self.image_size, self.levels, tokens, self.coupled, self.classes, self.small)

    @property
    def channels(self) -> int:
        """Return the levels of a pixel, over which bits per dimension are a mean."""
        return COLOURS if self.pixels == "rgb" else 1

    @property
    def outputs(self) -> int:
        """Return the numbers that the head gives for each token."""
        if self.output == "categorical":
            return self.levels
        return self.mixtures * (COUPLED if self.coupled else UNCOUPLED)

    @property
    def depth(self) -> tuple[int, int]:
        return 0, self.layers

    @property
    def context(self) -> int:
        return self.order.length

    @property
    def attentions(self) -> list[str]:
        return [f"decoder.{n}.self" for n in range(self.layers)]

    @property
    def summary(self) -> str:
        what = {"grey": f"{self.levels} grey levels", "rgb": f"3 x {self.levels} levels", "palette": f"{self.levels} colours"}
        size = f"{self.image_size} x {self.image_size} pixels of {what[self.pixels]}"
        return f"{size}, width {self.width}, {self.heads} heads, {self.layers} layers, feed-forward {self.feedforward}"


def _divisor(side: int) -> int:
    """Return the largest divisor that is smaller, 1 of a prime."""
    return next((n for n in range(side // 2, 0, -1) if not side % n), 1)


def _patterns(visibility: Visibility) -> Iterator[Visibility]:
    """Yield the patterns that a visibility is made of."""
    sides = [getattr(visibility, side) for side in ("left", "right") if hasattr(visibility, side)]
    if not sides:
        yield visibility
    for side in sides:
        yield from _patterns(side)


class ImageTransformer(nn.Module):
    def __init__(self, config: ImageTransformerConfig, seed: int = 0) -> None:
        super().__init__()
        c, order = config, config.order
        self.config, self.order = config, order
        self.visibility = causal & after_prefix(parse_visibility(c.visibility), order.prefix)
        on_grid = c.grid and c.position in IN_VECTORS
        kind = "none" if on_grid else c.position
        self.embed = Embed(order.rows, c.width, position=kind, maximum_length=order.length, dropout=c.dropout, scaled=False)
        if order.coupled:
            self.embed.tokens = CoupledTokens(order, c.width)
        if on_grid:
            self.embed.positions.scheme = GridPositions(c.width, order, c.position == "learned")
        self.decoder = Stack(c, c.layers, "decoder", position=attention_position(c, c.layers, causal=True))
        self.head = VocabularyHead(c.width, c.outputs, bias=c.output == "logistic")
        if c.pixels == "palette":
            self.register_buffer("palette_VC", torch.zeros(c.levels, COLOURS))  # colours from -1 to 1, learned from the images
        initialise(self, seed, deviation=0.02, residual_layers=2 * c.layers)
        if c.output == "logistic" and not self.head.project.bias.is_meta:
            self.head.project.bias.data.copy_(spread(c.mixtures, COUPLED if c.coupled else UNCOUPLED))

    def forward(self, ids_BL: Tensor) -> Tensor:
        """Return for all tokens what `step` returns for one."""
        return self.scores(self.numbers(self.hidden(ids_BL)))

    def hidden(self, ids_BL: Tensor) -> Tensor:
        """The vectors x_BLD that the next tokens are predicted from."""
        length = ids_BL.shape[1]
        view = self.visibility.over(length, length, batch=len(ids_BL), device=ids_BL.device, mask=self.config.compares)
        return self.decoder(self.embed(ids_BL), view)

    def numbers(self, x_BLD: Tensor) -> Tensor:
        """Return what the head gives. Means of logistics are in float32: rounded to bf16, they are off by half a level."""
        if self.config.output == "categorical":
            return self.head(x_BLD)
        with without_autocast(x_BLD.device.type):
            return self.head(x_BLD.to(self.head.project.weight.dtype))

    def scores(self, numbers_BLP: Tensor) -> Tensor:
        """Return scores_BLV of what the head gives; of coupled colours, which no vocabulary has, that itself."""
        c = self.config
        return log_probabilities(numbers_BLP, c.levels) if c.output == "logistic" and not c.coupled else numbers_BLP

    @torch.no_grad()
    def start(self, prompt_BL: Tensor, lengths_B: Tensor) -> EncodedPrompt:
        """Reads prompts, padded at the right, in one pass. The token that drawing starts from is not among them."""
        caches = [Prompt() for _ in self.decoder.blocks]
        length = prompt_BL.shape[1]
        view = self.visibility.over(length, length, device=prompt_BL.device)
        self.decoder(self.embed(prompt_BL), view, caches=caches)
        return EncodedPrompt(self, self.embed, [cache.parts for cache in caches], lengths_B)

    def step(self, ids_SW: Tensor, past: DecoderState) -> Tensor:
        """The same as `forward` after one more token in every lane, with all before it taken from the past."""
        x_SWD, view = self.embed(ids_SW, past.positions_SW), past.view(self.visibility)
        return self.scores(kernels.logits(self.decoder, self.head, x_SWD, view, None, None, past.caches))


def _inputs(config: ImageTransformerConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor]:
    """Return (ids_BL,), of levels."""
    if torch.get_default_device().type == "meta":
        return (torch.empty(batch, length, dtype=torch.long),)
    return (torch.randint(min(4, config.levels - 1), config.levels, (batch, length)),)


FAMILY = Family(
    name="image_transformer",
    config=ImageTransformerConfig,
    build=lambda config, sizes, seed: ImageTransformer(config, seed),
    inputs=_inputs,
    capabilities=frozenset({"pixel_lm", "attention", "blocks"}),
)
