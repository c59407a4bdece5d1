"""The Perceiver: a few latents read pixels, bytes or a series, however long it is, and output queries read the latents.

Jaegle et al. 2021 (Perceiver) and 2022 (Perceiver IO). Cost grows linearly with the input: latents are few, and only they
attend to each other. `model.reads` says what the input is:

    image     pixels with Fourier features (224 x 224 x 261 numbers in the paper), with learned positions, or behind a stem of
              convolutions
    text      tokens, bytes in the paper, with learned positions; answered for each position (masked tokens) or once (a class)
    both      an image and a question about it in one array, answered by a class
    series    numbers over time; answered by a class, or by `horizon` queries with as many numbers each

The Perceiver of 2021 reads its input several times (`readings`) and averages its latents; that of 2022 reads once and asks by
queries, as everything is asked here. Released: language-perceiver (201M parameters) and vision-perceiver-fourier;
`published_sizes.py` has them.

Differs from the papers in: `dropout` acts on what each sublayer adds (theirs: none); the stem normalises in groups of channels
and halves twice by convolutions (theirs: batch normalisation, one convolution and a pooling).

Dims: B batch, L length, M positions of the array, N latents, H queries of a horizon, C channels of the array or numbers of a
time.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from regard.core.config import Count
from regard.core.errors import UserError
from regard.core.packing import Words
from regard.data.batching.labelled import SpecialTokens
from regard.families.base import MASKED_WORDS, Family, Heads, Sizes, all_words, first_role, random_ids
from regard.model.embedding import VocabularyHead
from regard.model.heads import LinearHead
from regard.model.init import initialise
from regard.model.perceiver.inputs import (
    STEM,
    ImageArray,
    PairedArray,
    Positions,
    SeriesArray,
    TextArray,
    dtype_of,
    fourier_channels,
)
from regard.model.perceiver.latents import LatentEncoder, LatentSettings, OutputQueries
from regard.model.probe import Probe
from regard.model.vision import ImageSettings
from regard.text.specials import Roles

OF_IMAGES = ("stem", "image_size", "colours", "pixel_mean", "pixel_deviation")
OF_SERIES = ("numbers", "horizon")


@dataclass(frozen=True, kw_only=True)
class PerceiverConfig(LatentSettings, ImageSettings):
    family: Literal["perceiver"] = "perceiver"
    reads: Literal["image", "text", "both", "series"] = "image"
    positions: Positions = "fourier"  # of what is read
    bands: Count = 64  # of Fourier features: frequencies of each axis
    stem: bool = False  # convolutions make one of 4 x 4 pixels before they are read
    input_width: Count = 256  # of embedded tokens, of learned positions, and of what a stem or a projection makes
    maximum_length: Count = 2048  # of texts and series
    numbers: Count = 1  # that a series has at each time
    horizon: int = 0  # of a series: times to come, each asked by a query; 0: its class is asked
    decoder_heads: Count = 1  # of output queries
    decoder_qk_width: int = 0  # 0: as wide as the latents
    decoder_value_width: int = 0  # 0: as model.decoder_qk_width
    deviation: float = 0.02  # of matrices as they are drawn

    packable = False  # arrays lie side by side
    segments = 0
    mixer = "softmax"
    position = "learned"  # as other families call it: a text has model.maximum_length tokens at most

    def __post_init__(self) -> None:
        self.check_image()
        self._check_reads()
        self.check_latents(self.channels)
        for key, given in (("decoder_qk_width", self.answer_qk), ("decoder_value_width", self.answer_value)):
            if given <= 0 or given % self.decoder_heads:
                raise UserError(
                    f"model.decoder_heads={self.decoder_heads} does not divide a width of {given}; set model.decoder_heads=1, or "
                    f"model.{key} to a multiple of it."
                )
        if not 0 < self.deviation < 1:
            raise UserError(f"model.deviation={self.deviation} must be above 0 and below 1, such as 0.02.")

    def _check_reads(self) -> None:
        """Refuse settings that would do nothing for what is read, or that cannot be."""
        defaults = {field.name: field.default for field in fields(self)}
        for kind, keys in {"image": OF_IMAGES, "series": OF_SERIES}.items():
            for key in () if self.reads == kind or (kind, self.reads) == ("image", "both") else keys:
                if (given := getattr(self, key)) != defaults[key]:
                    raise UserError(f"model.{key}={given} is for model.reads={kind}; with model.reads={self.reads} leave it out.")
        if self.horizon < 0:
            raise UserError(f"model.horizon={self.horizon} must be a number of times to come, such as 24, or 0 for a class.")
        if self.stem and self.image_size % STEM:
            raise UserError(f"model.image_size={self.image_size} must be a multiple of {STEM} for model.stem=true, such as 32.")
        if self.positions == "learned" and self.bands != defaults["bands"]:
            raise UserError(f"model.bands={self.bands} is for model.positions=fourier; with learned positions leave it out.")

    @property
    def channels(self) -> int:
        """Return the width of the array that is read."""
        if self.reads == "both":
            return self.input_width
        axes, fourier = 2 if self.reads == "image" else 1, self.positions == "fourier"
        values = {"text": self.input_width, "series": self.numbers, "image": self.colours}[self.reads]
        if self.reads == "image" and (self.stem or not fourier):
            values = self.input_width
        if fourier:
            return values + fourier_channels(axes, self.bands)
        return 2 * self.input_width if self.reads == "image" else self.input_width

    @property
    def answer_qk(self) -> int:
        return self.decoder_qk_width or self.width

    @property
    def answer_value(self) -> int:
        return self.decoder_value_width or self.answer_qk

    @property
    def length(self) -> int:
        """Return the positions of the array, at most."""
        side, text = self.image_size // (STEM if self.stem else 1), self.maximum_length if self.reads != "image" else 0
        return (side * side if self.reads in ("image", "both") else 0) + text

    @property
    def context(self) -> int | None:
        return self.length if self.reads == "image" else self.maximum_length

    @property
    def depth(self) -> tuple[int, int]:
        return self.blocks * self.layers, 0

    @property
    def attentions(self) -> list[str]:
        return [*self.encoder_attentions, "decoder.0.cross"]

    @property
    def summary(self) -> str:
        layers = f"{self.blocks} x {self.layers} layers, {self.heads} heads"
        return f"{self.latents} latents of width {self.width}, {layers}, reads {self.reads}"

    @property
    def attends(self) -> str:
        """Attention in a few words."""
        return f"{self.latents} latents to {self.length:,} positions, to each other, and queries to them"


class Perceiver(nn.Module):
    head: VocabularyHead
    pooler: LatentPooler
    classes: LinearHead
    values: nn.Module

    def __init__(self, config: PerceiverConfig, vocabulary: int, seed: int = 0, heads: Heads = MASKED_WORDS) -> None:
        super().__init__()
        c = self.config = config
        words = c.reads == "text" and heads.words
        self.embed = _array(c, vocabulary)
        self.encoder = LatentEncoder(c, c.channels)
        if words:
            self.decoder = self._queries(c.maximum_length, c.input_width, residual=False)
            embed = cast(TextArray, self.embed).embed
            self.head = VocabularyHead(c.input_width, vocabulary, embed.tokens, bias=True)
        elif c.horizon:
            self.decoder = self._queries(c.horizon, c.width, residual=False)
            self.values = LinearHead(c.width, c.numbers)
        if heads.pooled or not (words or c.horizon):
            self.pooler = LatentPooler(self._queries(1, c.width, residual=True))
        if heads.classes:
            self.classes = LinearHead(c.width, heads.classes)
        initialise(self, seed, deviation=c.deviation)

    def _queries(self, number: int, width: int, *, residual: bool) -> OutputQueries:
        c = self.config
        return OutputQueries(
            c,
            "decoder.0.cross",
            number,
            width,
            residual=residual,
            heads=c.decoder_heads,
            qk=c.answer_qk,
            value=c.answer_value,
        )

    def forward(
        self, array: Tensor, words: Words | None = None, image: Tensor | None = None, owner_B: Tensor | None = None
    ) -> Tensor:
        """Return logits_BLV of a text, values_BHC of a series with a horizon, and logits_BC or vectors_BD of anything else.

        Of `both`, `array` is the texts, and text b is about image `owner_B[b]`, or image b.
        """
        found = self.outputs(array, words, image, owner_B)
        return found[next(name for name in ("words", "values", "classes", "pooler") if name in found)]

    def outputs(
        self,
        array: Tensor,
        words: Words | None = None,
        image: Tensor | None = None,
        owner_B: Tensor | None = None,
        *,
        scored: int | None = None,
    ) -> dict[str, Tensor]:
        """Return what every head makes of inputs; the head of words, of the first `scored` tokens of each text."""
        latents_BND = self.latents(array, words, image, owner_B)
        found: dict[str, Tensor] = {}
        if hasattr(self, "head"):
            found["words"] = self.head(self.decoder(latents_BND, array.shape[1])[:, :scored])
        elif hasattr(self, "values"):
            found["values"] = self.values(self.decoder(latents_BND))
        if hasattr(self, "pooler"):
            found["pooler"] = self.pooler(latents_BND, words)
        if hasattr(self, "classes"):
            found["classes"] = self.classes(found["pooler"])
            if self.config.reads != "text":  # whose outputs are one logits_BC for each head, as those of other image models
                del found["pooler"]
        return found

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Return vectors_BLC of the positions of texts; of a model without a head for words, latents_BND."""
        latents_BND = self.latents(ids_BL, words)
        return self.decoder(latents_BND, ids_BL.shape[1]) if hasattr(self, "head") else latents_BND

    def latents(
        self, array: Tensor, words: Words | None = None, image: Tensor | None = None, owner_B: Tensor | None = None
    ) -> Tensor:
        """Return latents_BND of ids_BL, image_BYXC or series_BLC; `words` are lengths_B, None where all positions count."""
        if not (words is None or isinstance(words, Tensor)):
            raise TypeError("a Perceiver reads arrays side by side, which are not packed")
        dtype = dtype_of(self.encoder.latents.weight)
        if self.config.reads == "both":
            array_BMC = self.embed(array, image, owner_B, dtype)
            lengths_B = None if words is None else words + (array_BMC.shape[1] - array.shape[1])  # the image comes first
            return self.encoder(array_BMC, lengths_B)
        array_BMC = self.embed(array) if self.config.reads == "text" else self.embed(array, dtype)
        return self.encoder(array_BMC, words)

    def image_weights(self, seen: Probe) -> Tensor:
        """Return weights_B1M of the answer over the places of the image, by way of the latents: how much the query attends to a
        latent, times how much that latent attended to a place, in the mean over heads and readings."""
        side = self.config.image_size // (STEM if self.config.stem else 1)
        reads = [seen[f"encoder.{block}.cross"].weights().mean(1) for block in range(self.config.readings)]
        asked_B1N = seen["decoder.0.cross"].weights().mean(1)
        return asked_B1N @ torch.stack(reads).mean(0)[..., : side * side]


def _array(c: PerceiverConfig, vocabulary: int) -> nn.Module:
    """Build what makes an array of the inputs."""
    if c.reads == "series":
        return SeriesArray(c.numbers, c.positions, bands=c.bands, width=c.input_width, maximum_length=c.maximum_length)
    length, dropout = c.maximum_length, c.dropout
    image = lambda: ImageArray(c, c.positions, bands=c.bands, width=c.input_width, stem=c.stem)  # noqa: E731
    text = lambda: TextArray(  # noqa: E731
        vocabulary, c.positions, bands=c.bands, width=c.input_width, maximum_length=length, dropout=dropout
    )
    if c.reads == "both":
        return PairedArray(image(), text(), c.input_width)
    return image() if c.reads == "image" else text()


class LatentPooler(nn.Module):
    """One vector x_BD for the whole input: the answer to one learned query."""

    def __init__(self, queries: OutputQueries) -> None:
        super().__init__()
        self.queries = queries

    def forward(self, latents_BND: Tensor, words: Words | None = None) -> Tensor:
        return self.queries(latents_BND)[:, 0]


def _build(config: PerceiverConfig, sizes: Sizes, seed: int) -> Perceiver:
    return Perceiver(config, sizes.vocabulary, seed, sizes.heads)


def _inputs(config: PerceiverConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, ...]:
    """Return (image_BYXC,), (ids_BL, lengths_B), (ids_BL, lengths_B, image_BYXC) or (series_BLC, lengths_B)."""
    if config.reads in ("image", "both"):
        image_BYXC = torch.randint(256, (batch, config.image_size, config.image_size, config.colours), dtype=torch.uint8)
        text = (random_ids(sizes.vocabulary, batch, length), all_words(batch, length)) if config.reads == "both" else ()
        return (*text, image_BYXC)
    if config.reads == "series":
        return torch.rand(batch, length, config.numbers), all_words(batch, length)
    return random_ids(sizes.vocabulary, batch, length), all_words(batch, length)


def _marks(config: Any, roles: Roles) -> SpecialTokens:
    if config.reads != "text":
        raise UserError(f"model.reads={config.reads} reads no texts by themselves; for this task set model.reads=text.")
    start, end = first_role(roles.cls, roles.sos), first_role(roles.sep, roles.eos)
    return SpecialTokens(start, end, end)


FAMILY = Family(
    name="perceiver",
    config=PerceiverConfig,
    build=_build,
    inputs=_inputs,
    capabilities=frozenset(
        {"image_classification", "masked_lm", "pooled_vector", "visual_questions", "attention", "compiles_steps"}
    ),
    marks=_marks,
)
