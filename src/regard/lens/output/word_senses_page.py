"""The uses of a word as one page to explore: a layer to choose, a pair to follow.

Distances travel as 16-bit fractions of 2, the most there is; of a symmetric matrix, the half above its diagonal.
"""

from __future__ import annotations

import base64

import numpy as np

from regard.lens.analyses.word_senses import Use, WordUses
from regard.lens.display import sentence
from regard.lens.output import one_file
from regard.lens.output.text import line
from regard.lens.plots.word_senses import ACCENT, MANY, groups, sense_colours

STEPS = 65535
SIDE = 44  # characters of a sentence on each side of the word

_STYLES = ("base.css", "uses.css")
_SCRIPTS = ("uses_data.js", "uses_draw.js", "uses_events.js")


def html(found: WordUses, layer: int) -> bytes:
    title = f"{sentence(found.word)}: one word, {len(found.uses):,} uses"
    return one_file.page("uses.html", _STYLES, _SCRIPTS, title, _data(found, layer))


def _data(found: WordUses, layer: int) -> dict[str, object]:
    order, hues, senses = found.order, sense_colours(found), found.senses
    above = np.triu_indices(len(order), 1)
    distances_LP = found.distances_LUU[:, order][:, :, order][:, *above]
    return {
        "model": sentence(found.model),
        "layers": found.layers,
        "layer": layer,
        "uses": [_use(found.uses[n], n + 1, hues) for n in order],
        "groups": [
            {
                "name": group.name,
                "colour": group.colour,
                "mean": group.mean_L.tolist(),
                "low": np.percentile(group.values_LP, 10, axis=1).tolist(),
                "high": np.percentile(group.values_LP, 90, axis=1).tolist(),
            }
            for group in groups(found)
        ],
        "score": None if senses is None else senses.score_L.tolist(),
        "others": [None if np.isnan(other) else float(other) for other in found.others_L],
        "many": len(found.pairs) > MANY,
        "steps": STEPS,
        "distances": base64.b64encode(np.rint(distances_LP.clip(0, 2) * (STEPS / 2)).astype("<u2").tobytes()).decode("ascii"),
    }


def _use(use: Use, number: int, hues: dict[str, str]) -> dict[str, object]:
    return {"number": number, **line(use, SIDE)._asdict(), "sense": sentence(use.sense), "hue": hues.get(use.sense, ACCENT)}
