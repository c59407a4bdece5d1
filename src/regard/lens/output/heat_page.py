"""Heat maps as one page: the image, and the caption's words to point at.

Pixels and weights travel as bytes and 16-bit fractions of one, since the page may load nothing, not even a picture.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from regard.lens.display import sentence, visible
from regard.lens.output import one_file

STEPS = 65535


def html(title: str, told: str, image_YXC: np.ndarray, words: Sequence[str], maps_LYX: np.ndarray) -> bytes:
    data = {
        "title": sentence(title),
        "told": sentence(told),  # what the light shows
        "words": [visible(word) for word in words],
        "image": {"rows": image_YXC.shape[0], "columns": image_YXC.shape[1], "pixels": _text(image_YXC.astype(np.uint8))},
        "rows": maps_LYX.shape[1],
        "columns": maps_LYX.shape[2],
        "steps": STEPS,
        "maps": _text(np.rint(maps_LYX.clip(0, 1) * STEPS).astype("<u2")),
    }
    return one_file.page("heat.html", ("base.css", "heat.css"), ("heat.js",), sentence(title), data)


def _text(numbers: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode("ascii")
