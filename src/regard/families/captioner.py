"""The captioner: an image is read as a grid of cells, and a decoder that looks at them writes what is to be seen.

Xu et al. 2015, "Show, attend and tell": a convolutional encoder, and an LSTM that looks before it takes each word (soft
attention, section 4.2): it begins with tanh of a map of the mean cell, and its score is additive (`mixer = "additive"`). With
`decoder = "transformer"` it is the Transformer's own decoder, and with `encoder = "patches"` the image is read by blocks that
look at all of its patches (Dosovitskiy et al. 2021); any of the two encoders goes with any of the two decoders.

Differs from Xu et al. in: the encoder is small and trained here with the rest, not a VGG net that was trained to classify; cells
are given their `position` and pass one more layer that takes both together, where theirs have seen the whole image; what
is found is not scaled by a gate (their beta, 4.2.1); the output is Bahdanau's (`model/recurrent/decoders.py`), a maximum of two
sums, where theirs is a sum of three terms.

Dims: B batch, Y X rows and columns of pixels, C colours, M cells, L caption length, D width, S sentences, W lanes.

A captioner counted: its tree of parts, with parameters and the operations of one image and one caption.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.families.base import Family, Sizes, random_ids
from regard.families.recurrent import beginning
from regard.families.transformer import Layers
from regard.model.block import BlockConfig, BodyConfig, Stack
from regard.model.embedding import Embed, VocabularyHead
from regard.model.init import initialise
from regard.model.kernels import decode_step as kernels
from regard.model.layers import Linear
from regard.model.mixers import SCORES
from regard.model.position import ABSOLUTE
from regard.model.recurrent.cells import PARTS
from regard.model.recurrent.decoders import Bahdanau, Source
from regard.model.state.decoder import DecoderState, EncodedPrompt
from regard.model.state.recurrent import RecurrentPrompt
from regard.model.visibility import Visibility, causal, full
from regard.model.vision import COLOURS, ImageEncoder, check_cells, stage_channels

OF_ALL = ("width", "dropout", "mixer")  # of the settings of blocks, those that mean something where there are none


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(BodyConfig):
    family: Literal["captioner"] = "captioner"
    encoder: Literal["cnn", "patches"] = "cnn"
    decoder: Literal["lstm", "transformer"] = "lstm"
    image_size: int = 64  # pixels: every image is made so wide and high
    patch: int = 8  # pixels that a cell is wide and high
    encoder_layers: Layers = 0  # of blocks that look at patches; as `layers` where 0
    decoder_layers: Layers = 0
    tie: Literal["output", "none"] = "output"  # one matrix for words that are read and words that are written

    packable = False  # images lie side by side

    def __post_init__(self) -> None:
        super().__post_init__()
        check_cells(self.image_size, self.patch, self.encoder, self.width)
        if self.encoder == "cnn" and (self.visibility != "full" or self.encoder_layers):
            raise UserError("model.visibility and model.encoder_layers are for model.encoder=patches; with cnn leave them out.")
        if self.decoder == "lstm" and self.mixer not in SCORES:
            raise UserError(f"model.mixer={self.mixer} does not score single cells; give one of: {', '.join(SCORES)}.")
        if self.position not in ABSOLUTE:
            raise UserError(f"model.position={self.position} is not for images; choose one of: {', '.join(ABSOLUTE)}.")
        self._check_blocks()

    def _check_blocks(self) -> None:
        """A setting that would do nothing is a mistake."""
        if self.encoder == "cnn" and self.decoder == "lstm":
            for field in fields(BlockConfig):
                if field.name not in OF_ALL and (given := getattr(self, field.name)) != field.default:
                    raise UserError(
                        f"model.{field.name}={given} is for blocks, and there are none in a cnn and an lstm; leave it out, or "
                        "set model.decoder=transformer or model.encoder=patches."
                    )

    @property
    def side(self) -> int:
        """Cells in a row and in a column."""
        return self.image_size // self.patch

    @property
    def cells(self) -> int:
        return self.side**2

    @property
    def depth(self) -> tuple[int, int]:
        return 0 if self.encoder == "cnn" else self.encoder_layers or self.layers, self.decoder_layers or self.layers

    @property
    def summary(self) -> str:
        return f"{self.encoder} to {self.side} x {self.side} cells, {self.decoder}, width {self.width}, mixer {self.mixer}"

    @property
    def attends(self) -> str:
        """Attention in a few words."""
        cells = "" if self.encoder == "cnn" else f"cells to cells, {self.visibility}; "
        words = "" if self.decoder == "lstm" else "words to the words before them; "
        return f"{cells}{words}words to all {self.side} x {self.side} cells; mixer {self.mixer}; position {self.position}"

    @property
    def kept_of_an_image(self) -> int:
        """Return about how many numbers training keeps of an image: the outputs of every stage or block."""
        if self.encoder == "patches":
            return self.cells * self.depth[0] * (10 * self.width + 2 * self.feedforward)
        sides = (self.image_size >> (n + 1) for n in range(self.patch.bit_length() - 1))
        return sum(3 * side**2 * channels for side, channels in zip(sides, stage_channels(self.patch, self.width)))

    @property
    def attentions(self) -> list[str]:
        encoder_layers, decoder_layers = self.depth
        read = [f"encoder.{n}.self" for n in range(encoder_layers)]
        if self.decoder == "lstm":
            return [*read, "decoder.0.cross"]
        return read + [f"decoder.{n}.{kind}" for n in range(decoder_layers) for kind in ("self", "cross")]


class LSTMWriter(nn.Module):
    """Looks with the state it has, then takes the word together with what it found."""

    def __init__(self, config: CaptionerConfig, vocabulary: int) -> None:
        super().__init__()
        c, self.layers = config, config.depth[1]
        self.visibility: Visibility = full
        self.target = Embed(vocabulary, c.width, position="none", maximum_length=1, dropout=c.dropout)
        self.begin = Linear(c.width, self.layers * PARTS["lstm"] * c.width)
        self.decoder = Bahdanau("lstm", c.width, self.layers, c.dropout, c.mixer)
        self.dropout = nn.Dropout(c.dropout)
        self.head = VocabularyHead(c.width, vocabulary, None if c.tie == "none" else self.target.tokens)

    def hidden(self, memory_BMD: Tensor, target_BL: Tensor) -> Tensor:
        (batch, cells, _), length = memory_BMD.shape, target_BL.shape[1]
        view, y_BLD = full.over(length, cells, batch=batch, device=target_BL.device), self.target(target_BL)
        source = Source(self.decoder.aligner.project_kv(memory_BMD), view)
        return self.dropout(self.decoder(y_BLD, self._begin(memory_BMD), source).to(y_BLD.dtype))

    def _begin(self, memory_BMD: Tensor) -> Tensor:
        """h and c of every layer, from the mean cell."""
        return beginning(self.begin, memory_BMD.mean(1), self.layers)

    def start(self, memory_BMD: Tensor) -> RecurrentPrompt:
        memory, cells_S = self.decoder.aligner.project_kv(memory_BMD), _all_cells(memory_BMD)
        return RecurrentPrompt(self, self._begin(memory_BMD), cells_S, memory)


class TransformerWriter(nn.Module):
    """The decoder of `families/transformer.py`, which looks back at cells."""

    def __init__(self, config: CaptionerConfig, vocabulary: int) -> None:
        super().__init__()
        c = config
        self.target = Embed(vocabulary, c.width, position=c.position, maximum_length=c.maximum_length, dropout=c.dropout)
        self.decoder = Stack(c, c.depth[1], "decoder", cross=True)
        self.head = VocabularyHead(c.width, vocabulary, None if c.tie == "none" else self.target.tokens)

    def hidden(self, memory_BMD: Tensor, target_BL: Tensor) -> Tensor:
        (batch, cells, _), length, device = memory_BMD.shape, target_BL.shape[1], target_BL.device
        view, memory_view = causal.over(length, length, device=device), full.over(length, cells, batch=batch, device=device)
        return self.decoder(self.target(target_BL), view, self.decoder.project_kv(memory_BMD), memory_view)

    def start(self, memory_BMD: Tensor) -> EncodedPrompt:
        memories, cells_S = self.decoder.project_kv(memory_BMD), _all_cells(memory_BMD)
        no_prompt = [block.self_attention.empty_kv(memory) for block, memory in zip(self.decoder.blocks, memories)]
        return EncodedPrompt(self, self.target, no_prompt, torch.zeros_like(cells_S), memories, cells_S)

    def step(self, ids_SW: Tensor, past: DecoderState) -> Tensor:
        x_SWD, view = self.target(ids_SW, past.positions_SW), past.view(full)
        return kernels.logits(self.decoder, self.head, x_SWD, view, past.memories, past.memory_view, past.caches)


def _all_cells(memory_BMD: Tensor) -> Tensor:
    return torch.full((len(memory_BMD),), memory_BMD.shape[1], device=memory_BMD.device)


class Captioner(nn.Module):
    def __init__(self, config: CaptionerConfig, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        self.encoder = ImageEncoder(
            c, c.encoder, patch=c.patch, side=c.side, layers=c.depth[0], position=c.position, visibility=c.visibility
        )
        self.writer = (LSTMWriter if config.decoder == "lstm" else TransformerWriter)(config, vocabulary)
        initialise(self, seed)

    @property
    def head(self) -> VocabularyHead:
        return self.writer.head

    @property
    def decoder(self) -> Bahdanau | Stack:
        return self.writer.decoder

    def forward(self, image_BYXC: Tensor, target_BL: Tensor) -> Tensor:
        """logits_BLV for every word of the caption at once; position l has seen words 0..l (teacher forcing)."""
        return self.head(self.hidden(image_BYXC, target_BL))

    def hidden(self, image_BYXC: Tensor, target_BL: Tensor) -> Tensor:
        """The vectors x_BLD that `forward` asks the head about."""
        return self.writer.hidden(self.encoder(image_BYXC), target_BL)

    @torch.no_grad()
    def start(self, image_BYXC: Tensor) -> EncodedPrompt | RecurrentPrompt:
        return self.writer.start(self.encoder(image_BYXC))


def _inputs(config: CaptionerConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor]:
    """Return (image_BYXC, target_BL)."""
    image_BYXC = torch.randint(256, (batch, config.image_size, config.image_size, COLOURS), dtype=torch.uint8)
    return image_BYXC, random_ids(sizes.vocabulary, batch, length)


FAMILY = Family(
    name="captioner",
    config=CaptionerConfig,
    build=lambda config, sizes, seed: Captioner(config, sizes.vocabulary, seed),
    inputs=_inputs,
    capabilities=frozenset({"captioning", "attention"}),
)
