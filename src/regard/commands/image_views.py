"""Views of `regard lens --show` for models that read images, and what is drawn of an image where no view is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from regard.core.errors import UserError
from regard.families import family_of
from regard.lens.analyses.gradients import Attribution
from regard.lens.analyses.image_attention import class_maps, image_rollout, latent_maps, patch_maps
from regard.lens.analyses.image_heads import ImageRoles, image_roles
from regard.lens.analyses.image_relevance import attributed, relevance
from regard.lens.result import LensResult
from regard.lens.subject import Subject
from regard.runs.protocols import Predictor

IMAGES = (
    "image_classification",
    "captioning",
    "pixel_lm",
    "visual_questions",
    "masked_image_modeling",
)  # capabilities of families that read an image
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ppm")


class Asked(Protocol):
    """Options of a request that these views use."""

    @property
    def patch(self) -> str | None: ...
    @property
    def layer(self) -> int | None: ...
    @property
    def head(self) -> int | None: ...
    @property
    def target(self) -> str | None: ...


def reads_images(model: Any) -> bool:
    """Return whether a model reads or draws images, so that a text given to it would be taken for the name of a file."""
    family = family_of(model)
    return family.has_any(*IMAGES) and getattr(getattr(model, "config", None), "reads", "image") in ("image", "both")


def only_image(subject: Subject) -> bool:
    """Return whether a model reads an image and writes no text."""
    return subject.image is not None and subject.outputs is None


def place_of(patch: str) -> tuple[int, int]:
    """Return the row and the column, from 0, of a patch that is named by both, from 1."""
    if (found := re.fullmatch(r"\s*(\d{1,5})\s*[,x ]\s*(\d{1,5})\s*", patch)) is None:
        raise UserError(f"--patch {patch} is no row and column; give both, counted from 1, such as --patch 3,4.")
    return int(found[1]) - 1, int(found[2]) - 1


def patch_view(subject: Subject, asked: Asked) -> LensResult:
    assert asked.patch is not None
    return patch_maps(subject, *place_of(asked.patch), asked.layer, asked.head)


def class_view(subject: Subject, asked: Asked) -> LensResult:
    return class_maps(subject, asked.layer, asked.head)


def latents_view(subject: Subject, asked: Asked) -> LensResult:
    return latent_maps(subject, asked.layer, asked.head)


def rollout_view(subject: Subject, asked: Asked) -> LensResult:
    return image_rollout(subject, *((None, None) if asked.patch is None else place_of(asked.patch)))


def relevance_view(subject: Subject, asked: Asked) -> LensResult:
    return relevance(subject, None if asked.target is None else [n for n in subject.targets_L.tolist() if n >= 0])


def attribution_view(subject: Subject, analyse: Callable[[Subject], Attribution]) -> LensResult:
    """Return an explanation by gradients: of an image as maps over it, of anything else as it is."""
    found = analyse(subject)
    if not only_image(subject) or subject.image is None or subject.image.ahead:
        return found
    return attributed(subject, found.predictions[0], found.method, found.values_PN[0])


def roles_view(subject: Subject, random: Callable[[], Subject]) -> ImageRoles:
    """Return the roles of heads on an image; `random` makes the same subject with the weights that training starts from."""
    return image_roles(subject, None if subject.image is not None and subject.image.ahead else random())


def whole_view(subject: Subject) -> LensResult:
    """Return what `regard lens RUN IMAGE` draws: what the head reads by attention, or rollout where it reads a mean."""
    image = subject.image
    assert image is not None
    if image.ahead:
        return patch_maps(subject, image.rows // 2, image.columns // 2)
    if any(keys == image.stack for _, keys in subject.apart.values()):
        return latent_maps(subject)
    return class_maps(subject) if image.first or subject.apart else image_rollout(subject)


def refuse_image(predictor: Predictor, run: str, text: str) -> None:
    """Refuse the name of an image file where a text is read."""
    path = Path(text.strip())
    if path.suffix.lower() not in SUFFIXES or reads_images(predictor.model):
        return
    if path.is_file():
        raise UserError(f"{run} reads text, and {text} is an image; give it a text, or the image to a run that reads images.")
