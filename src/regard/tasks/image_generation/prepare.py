"""Prepare images for a model that draws them: their levels, a palette where it has one, and the names of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.pixels import PixelBatches, PixelData
from regard.data.config import describe_valid_fraction, split_rows
from regard.data.labels import Labels
from regard.data.palette import learn_palette
from regard.data.sources.image_sets import ImageSet, read_image_set
from regard.decode.config import DecodeConfig
from regard.families import family_of
from regard.families.base import Sizes
from regard.families.flops import Part
from regard.metrics.pixels import place_bits, png_bits
from regard.objectives.pixels import bits
from regard.runs.folder import Run, Say
from regard.runs.prepared import Measured, Prepared, read_split, warn_of_overlap
from regard.runs.pretrained import InitCheckpoint, start_of
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.image_generation.levels import Levels, classes_of
from regard.tasks.image_generation.predict import LABELS, PALETTE, ImageGenerator
from regard.training.checkpoint import Checkpoint
from regard.training.loop import Validation

EXPECTED = "a folder of images, an idx or .npz file, a table of paths, or builtin:shapes/train"
QUICK = 300  # tokens of an image: up to here one is drawn at each validation
SHADES = " .:-=+*#%@"
COMPARED = 2_000  # images at most that PNG is measured on


@dataclass(frozen=True, kw_only=True)
class Drawings(Prepared):
    """Images as levels."""

    train: PixelData
    valid: PixelData
    levels: Levels
    unit = "levels"
    examples = "images"

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {LABELS: Labels(self.levels.classes, 1)} if len(self.levels.classes) > 1 else {}

    def build(self, seed: int) -> nn.Module:
        model: Any = family_of(self.recipe.model).build(self.recipe.model, Sizes(vocabulary=self.recipe.model.levels), seed)
        if self.levels.palette_VC is not None:
            model.palette_VC = torch.from_numpy(self.levels.palette_VC).float().to(model.palette_VC.device)
        return model

    def source(self, *, packed: bool) -> PixelBatches:
        return self._batches(self.train)

    def _batches(self, data: PixelData) -> PixelBatches:
        train = self.recipe.train
        return PixelBatches(data, max(1, train.tokens_per_batch // self.recipe.model.order.length), train.seed)

    def valid_batches(self) -> list[Any]:
        return list(self._batches(self.valid).in_order())

    def report(self, model: Any, measured: Measured) -> Validation:
        """Report the loss on the validation images; of small images, draw one."""
        nll, samples = measured.means["nll"], list[str]()
        if model.order.length <= QUICK and not model.config.small:
            decode = DecodeConfig(search="sample", batch_tokens=1)
            drawer = ImageGenerator(model, self.levels, decode, self.recipe.data)
            text = self.levels.classes[0] if self.levels.classes else ""
            samples = [in_letters(drawer.draw(text))]
        return Validation({"nll": nll, "bits_per_dim": bits(nll)}, samples)

    def example(self) -> tuple[Part, int]:
        model = self.recipe.model
        return family_of(model).count(model, Sizes(vocabulary=model.levels), model.order.length), self.train.level_NL.shape[1]


def in_letters(image_YXC: np.ndarray) -> str:
    """Return an image as lines of letters, darker pixels as lighter letters."""
    shade_YX = image_YXC.mean(-1).astype(np.int64) * len(SHADES) // 256
    return "\n".join("".join(SHADES[shade] for shade in row) for row in shade_YX)


@dataclass(frozen=True)
class TestImages:
    """The places of the test images, and of the training images, from which the simplest models learn."""

    recipe: Recipe

    def images(self, levels: Levels) -> ImageSet:
        return read_images(self.recipe, "test", levels)

    def others(self, levels: Levels, test: PixelData) -> dict[str, float]:
        """Return the bits per dimension that simpler models need."""
        found = {"all levels alike": float(np.log2(self.recipe.model.levels))}
        try:
            train = levels.of(read_images(self.recipe, "train", levels).pixels_NYXC)
        except UserError:
            pass  # the run may be far from what it was trained on
        else:
            found["a histogram for each place"] = place_bits(train, test.level_NL, self.recipe.model.levels)
        if self.recipe.model.levels <= 256:
            found["PNG files"] = png_bits(test.level_NL[:COMPARED], self.recipe.model.image_size)
        return found


def read_images(recipe: Recipe, split: str, levels: Levels) -> ImageSet:
    data = recipe.data
    labelled = recipe.model.classes > 0

    def read(where: tuple[str, ...], limit: int | None) -> ImageSet:
        form = levels.form(data.resize)
        return read_image_set(where, form, columns=data.columns, images=data.images, limit=limit, labelled=labelled)

    found = read_split(recipe, split, read, EXPECTED)
    if not len(found):
        raise UserError(f"data.{split} has no images; give {EXPECTED}.")
    return found


def read_test(recipe: Recipe) -> TestImages:
    if not recipe.data.test:
        raise UserError(f"data.test is empty; give {EXPECTED}.")
    return TestImages(recipe)


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Drawings:
    """Read and check the images, then learn a palette from them if the model has one. Nothing is written."""
    model, plain = recipe.model, Levels(recipe.model)
    train = read_images(recipe, "train", plain)
    if recipe.data.valid or not recipe.data.valid_fraction:
        valid = read_images(recipe, "valid", plain)
    else:
        rows = split_rows(train.looks(), recipe.data.valid_fraction, "images")
        train, valid = train.take(np.array(rows.kept)), train.take(np.array(rows.held))
    for line in (*describe_valid_fraction(recipe.data), *train.notes):
        say(line)
    begun = None if folder is None else Run(folder).store().newest("step")
    start = start_of(recipe.task.init_from) if recipe.task.init_from and begun is None else None
    levels = Levels(model, _palette(recipe, begun, start, train), classes_of(train, model))
    test = read_test(recipe) if recipe.data.test else None
    if test is not None:
        warn_of_overlap(train.looks(), test.images(plain).looks(), "images", say)
    encoded, validation = (levels.data(part, split) for split, part in (("train", train), ("valid", valid)))
    order = model.order
    say(f"images: {len(train):,} to train on, {len(valid):,} to validate with; {order.pixels:,} tokens each")
    simple = place_bits(encoded.level_NL, validation.level_NL, model.levels)
    say(f"validation: a histogram of each place alone needs {simple:.4f} bits a dimension")
    return Drawings(recipe=recipe, train=encoded, valid=validation, levels=levels, test=test, start=start)


def _palette(recipe: Recipe, begun: Checkpoint | None, start: InitCheckpoint | None, train: ImageSet) -> np.ndarray | None:
    """Return the palette of the run that has begun, or of what training begins with; else learn it from the images."""
    if recipe.model.pixels != "palette":
        return None
    if begun is not None:
        return begun.tensors("model")[PALETTE].numpy()
    if start is not None:
        return start.weights[PALETTE].numpy()
    return learn_palette(train.pixels_NYXC.reshape(-1, 3), recipe.model.levels, recipe.train.seed)
