"""Prepare images with captions and a vocabulary for a model that writes about images."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from torch import nn

from regard.core.errors import UserError
from regard.data.batching.captions import CaptionBatches, EncodedCaptions, encode_captions, in_order
from regard.data.config import describe_valid_fraction, split_rows
from regard.data.sources.captions import CaptionedImages, read_captions
from regard.decode.config import DecodeConfig
from regard.families import family_of
from regard.families.base import Sizes
from regard.families.captioner import Captioner
from regard.families.flops import Part
from regard.runs.folder import Say
from regard.runs.prepared import Measured, PreparedText, read_split, warn_of_overlap, with_perplexity
from regard.runs.pretrained import vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.captioning.predict import CaptionGenerator, longest
from regard.training.loop import Validation

SAMPLES = 4


@dataclass(frozen=True, kw_only=True)
class Pictures(PreparedText):
    """Images with captions."""

    train: EncodedCaptions
    valid: EncodedCaptions
    valid_images: CaptionedImages
    test: CaptionedImages | None
    unit = "target tokens"

    def build(self, seed: int) -> Captioner:
        return Captioner(self.recipe.model, len(self.tokenizer), seed)

    def source(self, *, packed: bool) -> CaptionBatches:
        return CaptionBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed)

    def valid_batches(self) -> list[Any]:
        return in_order(self.valid, self.recipe.train.tokens_per_batch)

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the loss on the validation captions, and caption the first few images."""
        examples, images_NYXC = self.valid_images.examples[:SAMPLES], self.valid_images.images_NYXC[:SAMPLES]
        found = CaptionGenerator(cast(Captioner, model), self.tokenizer, DecodeConfig(search="greedy")).write(images_NYXC)
        lines = [
            f"{example.name}\n  reference  {example.captions[0]}\n  model      {best[0].text}"
            for example, best in zip(examples, found)
        ]
        return Validation(with_perplexity(measured.means), lines)

    def example(self) -> tuple[Part, int]:
        words = round(self.train.words.lengths.mean() + 1)
        sizes = Sizes(vocabulary=len(self.tokenizer))
        return family_of(self.recipe.model).count(self.recipe.model, sizes, words), words

    def amounts(self) -> dict[str, str]:
        parts = {"train": self.train, "valid": self.valid}
        return {name: f"{len(part):,} captions of {len(part.images_NYXC):,} images" for name, part in parts.items()}

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.train.digest, "valid": self.valid.digest}


def read_image_split(recipe: Recipe, split: str) -> CaptionedImages:
    images, size = recipe.data.images, recipe.model.image_size
    return read_split(recipe, split, lambda where, limit: read_captions(where, images, size, limit))


def read_to_learn(recipe: Recipe) -> tuple[CaptionedImages, CaptionedImages]:
    """Training and validation; of a share that is held out, images that look the same are on one side."""
    train = read_image_split(recipe, "train")
    if recipe.data.valid or not recipe.data.valid_fraction:
        return train, read_image_split(recipe, "valid")
    looks = [sha256(image_YXC.tobytes()).digest() for image_YXC in train.images_NYXC]
    rows = split_rows(looks, recipe.data.valid_fraction, "images")
    return train.take(rows.kept), train.take(rows.held)


def read_listed(recipe: Recipe) -> CaptionedImages:
    """Read the test images, or the validation images where there are none."""
    return read_test(recipe) if recipe.data.test else read_to_learn(recipe)[1]


def read_test(recipe: Recipe) -> CaptionedImages:
    return read_image_split(recipe, "test")


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Pictures:
    """Read and check the data, then take the vocabulary of the run's folder or learn it. Nothing is written."""
    train, valid = read_to_learn(recipe)
    test = read_image_split(recipe, "test") if recipe.data.test else None
    for line in describe_valid_fraction(recipe.data):
        say(line)
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        if part is not None:
            say(f"{name}: {len(part):,} images, {sum(len(e.captions) for e in part.examples):,} captions")
    if test is not None:
        pixels, test_pixels = ([image.tobytes() for image in part.images_NYXC] for part in (train, test))
        warn_of_overlap(pixels, test_pixels, "images", say)
    tokenizer = vocabulary(recipe, folder, None, lambda: [caption for e in train.examples for caption in e.captions])
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary")
    room = min(recipe.data.maximum_tokens, longest(recipe.model))
    encoded, validation = (encode_captions(part, tokenizer.encode_batch, maximum=room) for part in (train, valid))
    for name, numbered in (("train", encoded), ("valid", validation)):
        if not len(numbered):
            raise UserError(f"data.{name}: all captions are longer than {room} tokens; raise data.maximum_tokens.")
        if numbered.dropped:
            say(f"{name}: {numbered.dropped:,} captions are longer than {room} tokens and are left out")
    return Pictures(recipe=recipe, tokenizer=tokenizer, train=encoded, valid=validation, valid_images=valid, test=test)
