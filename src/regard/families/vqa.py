"""VQA: a question's words attend to each other and to the cells of an image, and together they answer.

Xu & Saenko 2016, "Ask, attend and answer": a convolutional image encoder, words that each attend to the image (their word-guided
attention, section 3.2), and a classification over answers. Here words attend in every layer, as those of a Transformer's
decoder do to a source, but all words see each other; the mean of the words' vectors is what answers. With `encoder=patches` the
image is read by blocks that attend to all of its patches (Dosovitskiy et al. 2021).

Differs from the paper in: words attend to cells by multi-head attention in several layers, where theirs has two hops, of which
the first takes the maximum over words; the encoder is small and trained here with the rest, not a GoogLeNet that was trained to
classify.

Dims: B questions, L words, I images, Y X rows and columns, C colours or answers, M cells, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.config import Count
from regard.core.errors import UserError
from regard.families.base import MASKED_WORDS, Family, Heads, Sizes, all_words, random_ids
from regard.families.transformer import Layers
from regard.model.block import BodyConfig, Stack
from regard.model.embedding import Embed
from regard.model.heads import LinearHead
from regard.model.init import initialise
from regard.model.layers import Activation
from regard.model.mixers import SCORES
from regard.model.pooling import mean_tokens
from regard.model.position import ABSOLUTE
from regard.model.probe import Probe
from regard.model.visibility import full, only_words
from regard.model.vision import COLOURS, ImageEncoder, check_cells


@dataclass(frozen=True, kw_only=True)
class VQAConfig(BodyConfig):
    family: Literal["vqa"] = "vqa"
    width: Count = 128
    heads: Count = 4
    layers: Count = 2
    feedforward: Count = 256
    activation: Activation = "gelu"
    norm_placement: Literal["pre", "post"] = "pre"
    encoder: Literal["cnn", "patches"] = "cnn"
    image_size: int = 64  # pixels: every image is made so wide and high
    patch: int = 8  # pixels that a cell is wide and high
    encoder_layers: Layers = 0  # of blocks that look at patches; as `layers` where 0
    maximum_length: Count = 64  # of learned positions of words

    packable = False  # images lie side by side

    def __post_init__(self) -> None:
        super().__post_init__()
        check_cells(self.image_size, self.patch, self.encoder, self.width)
        if self.encoder == "cnn" and (self.visibility != "full" or self.encoder_layers):
            raise UserError("model.visibility and model.encoder_layers are for model.encoder=patches; with cnn leave them out.")
        if self.mixer not in SCORES:
            raise UserError(f"model.mixer={self.mixer} does not score single cells; give one of: {', '.join(SCORES)}.")
        if self.position not in ABSOLUTE:
            raise UserError(f"model.position={self.position} is not for images; choose one of: {', '.join(ABSOLUTE)}.")

    @property
    def side(self) -> int:
        """Cells in a row and in a column."""
        return self.image_size // self.patch

    @property
    def depth(self) -> tuple[int, int]:
        return 0 if self.encoder == "cnn" else self.encoder_layers or self.layers, self.layers

    @property
    def summary(self) -> str:
        return f"{self.encoder} to {self.side} x {self.side} cells, {self.layers} layers of words, width {self.width}"

    @property
    def attends(self) -> str:
        """Attention in a few words."""
        return f"words to all words and to all {self.side} x {self.side} cells; mixer {self.mixer}; position {self.position}"

    @property
    def attentions(self) -> list[str]:
        encoder_layers, decoder_layers = self.depth
        read = [f"encoder.{n}.self" for n in range(encoder_layers)]
        return read + [f"decoder.{n}.{kind}" for n in range(decoder_layers) for kind in ("self", "cross")]


class VQA(nn.Module):
    def __init__(self, config: VQAConfig, vocabulary: int, seed: int = 0, heads: Heads = MASKED_WORDS) -> None:
        super().__init__()
        c = self.config = config
        self.encoder = ImageEncoder(
            c, c.encoder, patch=c.patch, side=c.side, layers=c.depth[0], position=c.position, visibility=c.visibility
        )
        self.embed = Embed(vocabulary, c.width, position=c.position, maximum_length=c.maximum_length, dropout=c.dropout)
        self.decoder = Stack(c, c.layers, "decoder", cross=True)
        self.answers = LinearHead(c.width, heads.classes or 2, c.dropout)
        initialise(self, seed)

    def forward(self, ids_BL: Tensor, lengths_B: Tensor, image_IYXC: Tensor, owner_B: Tensor | None = None) -> Tensor:
        """Return logits_BC of the answers; question b is about image `owner_B[b]`, or image b."""
        cells_BMD = self.encoder(image_IYXC)
        cells_BMD = cells_BMD if owner_B is None else cells_BMD[owner_B]
        (batch, length), cells, device = ids_BL.shape, cells_BMD.shape[1], ids_BL.device
        view = only_words(lengths_B).over(length, length, batch=batch, device=device)
        memory_view = full.over(length, cells, batch=batch, device=device)
        x_BLD = self.decoder(self.embed(ids_BL), view, self.decoder.project_kv(cells_BMD), memory_view)
        return self.answers(mean_tokens(x_BLD, lengths_B))

    def image_weights(self, seen: Probe) -> Tensor:
        """Return weights_BLM of each word over the cells: the mean over heads and layers of what a probe recorded."""
        names = [name for name in self.config.attentions if name.endswith(".cross")]
        return torch.stack([seen[name].weights().mean(1) for name in names]).mean(0)


def _inputs(config: VQAConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (ids_BL, lengths_B, image_BYXC)."""
    image_BYXC = torch.randint(256, (batch, config.image_size, config.image_size, COLOURS), dtype=torch.uint8)
    return random_ids(sizes.vocabulary, batch, length), all_words(batch, length), image_BYXC


FAMILY = Family(
    name="vqa",
    config=VQAConfig,
    build=lambda config, sizes, seed: VQA(config, sizes.vocabulary, seed, sizes.heads),
    inputs=_inputs,
    capabilities=frozenset({"visual_questions", "attention"}),
)
