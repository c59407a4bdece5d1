"""Prepare images for a model that restores what is hidden of them. Labels, where there are any, are not read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.data.augment import flip_and_crop
from regard.data.batching.images import ImageBatches, LabelledImages
from regard.data.config import describe_valid_fraction, split_rows
from regard.data.sources.image_sets import Form, ImageSet, read_image_set
from regard.families import build_model, count_model
from regard.families.flops import Part
from regard.objectives.base import Objective
from regard.objectives.masked_patches import MaskedPatchesLoss
from regard.runs.folder import Say
from regard.runs.prepared import Measured, Prepared, read_split, warn_of_overlap
from regard.runs.pretrained import start_of
from regard.runs.recipe import Recipe
from regard.training.loop import Validation

EXPECTED = "a folder of images, an archive of one, an idx or .npz file, a table of paths, or builtin:shapes/train"


@dataclass(frozen=True, kw_only=True)
class Pictures(Prepared):
    train: LabelledImages
    valid: LabelledImages
    test: ImageSet | None = None
    unit = "images"
    examples = "images"

    def build(self, seed: int) -> nn.Module:
        model: nn.Module = build_model(self.recipe.model, seed, vocabulary=0)
        return model

    def objective(self) -> Objective:
        data = self.recipe.data
        if not (data.flip or data.crop):
            return MaskedPatchesLoss(self.recipe.objective)
        return MaskedPatchesLoss(self.recipe.objective, lambda image_BYXC: flip_and_crop(image_BYXC, data.flip, data.crop))

    def source(self, *, packed: bool) -> ImageBatches:
        return ImageBatches(self.train, images_of_a_batch(self.recipe), self.recipe.train.seed)

    def valid_batches(self) -> list[Any]:
        return ImageBatches(self.valid, images_of_a_batch(self.recipe), seed=0).in_order()

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the mean squared error of hidden patches."""
        return Validation({**measured.means, "error": measured.means["nll"]}, [])

    def example(self) -> tuple[Part, int]:
        return count_model(self.recipe.model, 1, vocabulary=0), 1


def images_of_a_batch(recipe: Recipe) -> int:
    """Return the images of a batch: `train.examples_per_batch`, or as many as have `train.tokens_per_batch` tokens."""
    return int(recipe.train.examples_per_batch or max(1, recipe.train.tokens_per_batch // recipe.model.context))


def form_of(recipe: Recipe) -> Form:
    """Return the form that a recipe's model reads images in."""
    return Form(recipe.model.image_size, recipe.model.colours, recipe.data.resize)


def read_images(recipe: Recipe, split: str) -> ImageSet:
    data, form = recipe.data, form_of(recipe)

    def read(where: tuple[str, ...], limit: int | None) -> ImageSet:
        return read_image_set(where, form, columns=data.columns, images=data.images, limit=limit, labelled=False)

    return read_split(recipe, split, read, EXPECTED)


def read_test(recipe: Recipe) -> ImageSet:
    return read_images(recipe, "test")


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Pictures:
    """Read and check the images. Nothing is written."""
    begun = folder is not None and (folder / "recipe.toml").exists()
    start = start_of(recipe.task.init_from) if recipe.task.init_from and not begun else None
    train = read_images(recipe, "train")
    if recipe.data.valid or not recipe.data.valid_fraction:
        valid = read_images(recipe, "valid")
    else:
        rows = split_rows(train.looks(), recipe.data.valid_fraction, "images")
        train, valid = train.take(rows.kept), train.take(rows.held)
    test = read_test(recipe) if recipe.data.test else None
    for line in (*describe_valid_fraction(recipe.data), *train.notes):
        say(line)
    rows_columns = " x ".join(map(str, recipe.model.grid))
    say(f"images: {len(train):,} to train on, {len(valid):,} to validate with; {rows_columns} patches each")
    if test is not None:
        warn_of_overlap(train.looks(), test.looks(), "images", say)
    numbered = [LabelledImages.of(part.pixels_NYXC, np.zeros(len(part), np.int64)) for part in (train, valid)]
    found = Pictures(recipe=recipe, train=numbered[0], valid=numbered[1], test=test)
    return found if start is None else replace(found, start=start)
