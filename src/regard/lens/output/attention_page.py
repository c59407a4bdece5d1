"""Attention as one page to explore.

Weights travel as 16-bit fractions of one: 48 heads of 60 × 60 take half a megabyte.
"""

from __future__ import annotations

import base64

import numpy as np

from regard.lens.alignment import Alignment
from regard.lens.display import sentence, visible
from regard.lens.output import one_file
from regard.lens.plots.lines import colours

STEPS = 65535

_STYLES = ("base.css", "page.css")
_SCRIPTS = ("page_views.js", "page_layout.js", "page_draw.js", "page_events.js")


def html(alignment: Alignment) -> bytes:
    return one_file.page("page.html", _STYLES, _SCRIPTS, sentence(alignment.title), _data(alignment))


def _data(alignment: Alignment) -> dict[str, object]:
    steps = np.rint(alignment.weights.clip(0, 1) * STEPS).astype("<u2")
    return {
        "title": sentence(alignment.title),
        "layers": [visible(name) for name in alignment.layers],
        "heads": alignment.heads,
        "queries": [visible(token) for token in alignment.queries],
        "keys": [visible(token) for token in alignment.keys],
        "colours": colours(len(alignment.keys)),
        "steps": STEPS,
        "weights": base64.b64encode(steps.tobytes()).decode("ascii"),
    }
