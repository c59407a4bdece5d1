"""The uses of a word as lines of text: each use, the distances by layer, the nearest pair and the farthest.

The uses of a word in a picture: PNG, SVG or HTML for people, JSON for another program, by the ending of the file's name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.cells import cell_len

from regard.lens.analyses.word_senses import WordUses
from regard.lens.display import brief, sentence
from regard.lens.output.page import page
from regard.lens.output.save import check_suffix, store
from regard.lens.output.text import LEAST_WIDTH, bar, cut, line
from regard.lens.plots import word_senses

MOST_LISTED = 24  # uses
MOST_PAIRS = 6  # that have a column each
SENSE_COLUMNS = 14
SIDE = 44  # characters of a sentence on each side of the word, on a page
STEPS = 65535


def text(found: WordUses, layer: int, width: int = 100) -> str:
    """Return lines for a terminal of `width` columns; pairs are those of this layer, by its place among `found.layers`."""
    width = max(width, LEAST_WIDTH)
    where = {len(found.layers) - 1: "its last"}.get(layer, f"of {len(found.layers) - 2}")
    head = f"{sentence(found.word)}: {len(found.uses):,} uses, read by {sentence(found.model)}"
    lines = [cut(head, width), *_remarks(found), "", *_listing(found, width), "", *_table(found), ""]
    lines += [f"layer {found.layers[layer]}, {where}:" if layer else "the static embedding:", *_ends(found, layer, width)]
    return "\n".join([*lines, *_verdict(found, layer)])


def _remarks(found: WordUses) -> Iterator[str]:
    yield from found.notes
    if not found.one_spelling:
        spellings = dict.fromkeys(" ".join(use.pieces) for use in found.uses)
        yield f"spelled in {len(spellings)} ways ({', '.join(list(spellings)[:4])}), so that even its static vectors differ"


def _listing(found: WordUses, width: int) -> Iterator[str]:
    shown = found.uses[:MOST_LISTED]
    senses = [cut(sentence(use.sense), SENSE_COLUMNS) for use in shown]
    column, digits = max(map(cell_len, senses)), len(str(len(shown)))
    start = 2 + digits + (2 + column if column else 0)
    lines = [line(use, max(8, (width - start - 12 - cell_len(use.word)) // 2)) for use in shown]
    before = max(cell_len(part.before) for part in lines)
    for number, (sense, part) in enumerate(zip(senses, lines), start=1):
        named = f"{sense}{' ' * (column - cell_len(sense))}  " if column else ""
        yield f"{number:>{digits}}  {named}{' ' * (before - cell_len(part.before))}{part}"
    if len(found.uses) > len(shown):
        yield f"... and {len(found.uses) - len(shown):,} more"


def _table(found: WordUses) -> Iterator[str]:
    """Layers down; the mean of all pairs and, where there are few, each pair; by sense; and how far apart other words are."""
    mean_L, senses = found.mean_L, found.senses
    columns: list[tuple[str, Sequence[float] | np.ndarray, int]] = []
    if 1 < len(found.pairs) <= MOST_PAIRS:
        columns += [(f"{a + 1}-{b + 1}", found.pairs_LP[:, n], 3) for n, (a, b) in enumerate(found.pairs)]
    if senses is not None:
        columns += [("one sense", senses.within_L, 3), ("different", senses.between_L, 3), ("score", senses.score_L, 2)]
    columns += [("other words", found.others_L, 3)]
    yield "  ".join(["layer", f"{'distance':<19}", *(name.rjust(max(5, len(name))) for name, _, _ in columns)])
    most = max(float(mean_L.max()), 1e-9)
    for n, name in enumerate(found.layers):
        numbers = [_number(values[n], digits).rjust(max(5, len(title))) for title, values, digits in columns]
        yield "  ".join([f"{name:<5}", f"{mean_L[n]:.3f}  {bar(mean_L[n] / most)}", *numbers])


def _number(value: float, digits: int) -> str:
    return "-" if np.isnan(value) else brief(value, digits)


def _ends(found: WordUses, layer: int, width: int) -> Iterator[str]:
    """The nearest pair and the farthest, where there is more than one."""
    pairs, distances_P = found.pairs, found.pairs_LP[layer]
    ends = {"nearest": int(distances_P.argmin()), "farthest": int(distances_P.argmax())}
    for name, pair in ends.items() if len(pairs) > 1 else [("apart", 0)]:
        start = f"  {name:<8}  {brief(distances_P[pair], 3)}  "
        lines = [line(found.uses[use], max(8, (width - len(start) - 8 - len(found.word)) // 2)) for use in pairs[pair]]
        before = max(cell_len(part.before) for part in lines)
        for place, (use, part) in enumerate(zip(pairs[pair], lines)):
            aligned = f"{' ' * (before - cell_len(part.before))}{part}"
            yield f"{start if place == 0 else ' ' * len(start)}{use + 1:>3}  {aligned}"


def _verdict(found: WordUses, layer: int) -> Iterator[str]:
    if not found.labelled:
        return
    if (senses := found.senses) is None:
        yield "senses are not compared: that takes two uses of one sense and two of different ones"
        return
    best = int(senses.score_L.argmax())
    yield f"two uses of one sense are nearer than two of different senses in {100 * senses.score_L[layer]:.0f}% of comparisons"
    elsewhere = f"; in layer {found.layers[best]}, its best, in {100 * senses.score_L[best]:.0f}%" if best != layer else ""
    yield f"(chance: 50%{elsewhere})"


FORMAT = "regard.uses.1"


def save(found: WordUses, path: Path, layer: int) -> None:
    """The picture that the ending of `path` asks for, with the matrix of this layer, by its place among `found.layers`."""
    path = Path(path)
    check_suffix(path)
    store(_RENDERERS[path.suffix.lower()](found, layer), path)


def _json(found: WordUses, layer: int) -> bytes:
    """All layers, whichever is chosen for the eye."""
    senses = found.senses
    written = {
        "format": FORMAT,
        "word": found.word,
        "model": found.model,
        "layers": found.layers,
        "uses": [asdict(use) for use in found.uses],
        "distances": found.distances_LUU.tolist(),
        "mean": found.mean_L.tolist(),
        "other_words": [None if np.isnan(other) else float(other) for other in found.others_L],
        "senses": None if senses is None else {name[:-2]: values.tolist() for name, values in senses._asdict().items()},
        "notes": found.notes,
    }
    return (json.dumps(written, allow_nan=False) + "\n").encode("ascii")


def uses_data(found: WordUses) -> dict[str, Any]:
    """Return what studio draws of the uses of a word; those of one sense stand together.

    Distances travel as 16-bit fractions of 2, the most there is; of a symmetric matrix, the half above its diagonal.
    """
    order, hues, senses = found.order, word_senses.sense_colours(found), found.senses
    above = np.triu_indices(len(order), 1)
    distances_LP = found.distances_LUU[:, order][:, :, order][:, *above]
    groups = [
        {
            "name": group.name,
            "colour": group.colour,
            "mean": group.mean_L.tolist(),
            "low": np.percentile(group.values_LP, 10, axis=1).tolist(),
            "high": np.percentile(group.values_LP, 90, axis=1).tolist(),
        }
        for group in word_senses.groups(found)
    ]
    uses = []
    for n in order:
        use, hue = found.uses[n], hues.get(found.uses[n].sense, word_senses.ACCENT)
        uses.append({"number": n + 1, **line(use, SIDE)._asdict(), "sense": sentence(use.sense), "hue": hue})
    return {
        "word": sentence(found.word),
        "model": sentence(found.model),
        "layers": found.layers,
        "uses": uses,
        "groups": groups,
        "score": None if senses is None else senses.score_L.tolist(),
        "others": [None if np.isnan(other) else float(other) for other in found.others_L],
        "many": len(found.pairs) > word_senses.MANY,
        "pairs": base64.b64encode(np.rint(distances_LP.clip(0, 2) * (STEPS / 2)).astype("<u2").tobytes()).decode("ascii"),
        "notes": found.notes,
    }


def html(found: WordUses, layer: int) -> bytes:
    """Return studio's view of a word's uses as one file, opened at this layer."""
    title = f"{sentence(found.word)}: one word, {len(found.uses):,} uses"
    return page("offline_uses.js", title, {"title": title, "layer": layer, **uses_data(found)})


_RENDERERS: dict[str, Callable[[WordUses, int], bytes]] = {
    ".png": word_senses.png,
    ".svg": word_senses.svg,
    ".html": html,
    ".json": _json,
}
