"""An image before a classifier, as a subject: pixels as the model reads them, scored on a label.

Lens opens files by their names; studio has pixels already, so that no name in a request leads to a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.core.errors import UserError, nearest
from regard.families import family_of
from regard.lens.image_subject import image_subject
from regard.lens.subject import Subject

if TYPE_CHECKING:
    from regard.tasks.image_classification.predict import ImageClassifier


def of_classifier(classifier: ImageClassifier, image_YXC: np.ndarray, name: str, target: str | None = None) -> Subject:
    """Return the subject of pixels in the model's form, scored on a label: by default on its own."""
    names = classifier.labels.names
    if target is not None and target not in names:
        raise UserError(f"the label {target!r} is not one that this model knows{nearest(target, names)}")
    if not family_of(classifier.model).has("attention"):
        raise UserError("this model reads images by convolutions and has no attention to look into; give a run of a vit.")
    return image_subject(classifier.model, image_YXC, name, names, None if target is None else names.index(target))


def of_named(classifier: ImageClassifier, name: str, target: str | None = None) -> Subject:
    """Return the subject of an image file, or of a built-in image such as builtin:shapes/test/7."""
    if not name.startswith("builtin:") and not Path(name.strip()).expanduser().exists():
        raise UserError(
            f"this model reads images, and {name[:60]!r} is no file of one; give the path of an image, such as photo.png."
        )
    found = classifier.opened([name.strip()])
    if len(found) != 1:
        raise UserError(f"{name} holds {len(found):,} images; give one of them.")
    return of_classifier(classifier, found.pixels_NYXC[0], name, target)
