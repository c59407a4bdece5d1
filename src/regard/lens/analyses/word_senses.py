"""One word in several sentences: how far apart its vectors are, layer by layer.

A static embedding has one vector for a word, whatever stands around it; a model that reads gives each use its own. The distance
is 1 - cosine. Beside it stands that between different words of the same sentences, since in some models all vectors are near each
other (Ethayarajh 2019, section 3.3). Where senses are known, the score of a layer is the share of comparisons in which two
uses of one sense are nearer than two of different senses: 1/2 is chance.

The uses of a word as lines of text: each use, the distances by layer, the nearest pair and the farthest; or as a picture.

Dims: L rows (the static embedding, the embedding with positions, each layer), U uses, P pairs of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from rich.cells import cell_len

from regard.lens.display import LEAST_WIDTH, bar, brief, cut, sentence
from regard.lens.plots import word_senses
from regard.lens.plots.word_senses import line
from regard.lens.result import NotebookView, page

STATIC = "words"
FORMAT = "regard.uses.1"
MOST_LISTED = 24  # uses
MOST_PAIRS = 6  # that have a column each
SENSE_COLUMNS = 14
SIDE = 44  # characters of a sentence on each side of the word, on a page
STEPS = 65535


@dataclass(frozen=True)
class Use:
    sentence: str
    start: int  # of the word in it
    end: int
    pieces: tuple[str, ...]  # that the model reads the word as
    sense: str = ""

    @property
    def word(self) -> str:
        return self.sentence[self.start : self.end]


class Senses(NamedTuple):
    """Means by layer of the distances between uses of one sense and of different ones, and the score."""

    within_L: np.ndarray
    between_L: np.ndarray
    score_L: np.ndarray


@dataclass(frozen=True, eq=False)
class WordUses:
    word: str
    model: str
    uses: tuple[Use, ...]
    vectors: tuple[np.ndarray, ...]  # by layer, (uses, width); those of the static embedding first
    others_L: np.ndarray  # mean distance between different words of the sentences; NaN where there is but one
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.uses) < 2:
            raise ValueError(f"distances are between two uses or more; there are {len(self.uses)}.")
        if any(len(vectors) != len(self.uses) for vectors in self.vectors) or len(self.others_L) != len(self.vectors):
            raise ValueError(f"every layer needs {len(self.uses)} vectors, one a use, and a distance of other words.")

    @property
    def layers(self) -> tuple[str, ...]:
        return (STATIC, *map(str, range(len(self.vectors) - 1)))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.uses)), 2))

    @cached_property
    def distances_LUU(self) -> np.ndarray:
        return np.stack([distances(vectors) for vectors in self.vectors])

    @property
    def pairs_LP(self) -> np.ndarray:
        """Distances of `pairs`, in their order."""
        return self.distances_LUU[:, *np.triu_indices(len(self.uses), 1)]

    @property
    def mean_L(self) -> np.ndarray:
        return self.pairs_LP.mean(1)

    @property
    def one_spelling(self) -> bool:
        """True if the model reads the word as the same pieces everywhere; if not, even static vectors differ."""
        return len({use.pieces for use in self.uses}) == 1

    @property
    def labelled(self) -> bool:
        return bool(self.uses[0].sense)

    @property
    def order(self) -> list[int]:
        """Order in which uses are shown: those of one sense together, in the order that senses come in."""
        rank = {sense: n for n, sense in enumerate(dict.fromkeys(use.sense for use in self.uses))}
        return sorted(range(len(self.uses)), key=lambda n: rank[self.uses[n].sense])

    @cached_property
    def alike_P(self) -> np.ndarray:
        """True for pairs of one sense."""
        return np.array([self.uses[a].sense == self.uses[b].sense for a, b in self.pairs])

    @property
    def senses(self) -> Senses | None:
        """Distances by sense; None without two uses of one sense and two of different ones."""
        alike = self.alike_P
        if not self.labelled or alike.all() or not alike.any():
            return None
        within_LP, between_LP = self.pairs_LP[:, alike], self.pairs_LP[:, ~alike]
        score_L = np.array([_nearer(within, between) for within, between in zip(within_LP, between_LP)])
        return Senses(within_LP.mean(1), between_LP.mean(1), score_L)


def distances(vectors_UD: np.ndarray) -> np.ndarray:
    """1 - cosine of every two, as half the squared distance of their directions: exactly 0 for equal vectors, never below."""
    unit_UD = _unit(vectors_UD)
    return np.stack([((unit_UD - one_D) ** 2).sum(-1) / 2 for one_D in unit_UD])


def mean_distance(vectors_UD: np.ndarray) -> float:
    """Return the mean distance of all pairs, without a loop over pairs; NaN for fewer than two vectors."""
    unit_UD, count = _unit(vectors_UD), len(vectors_UD)
    if count < 2:
        return float("nan")
    return float(1 - ((unit_UD.sum(0) ** 2).sum() - count) / (count * (count - 1)))


def _unit(vectors_UD: np.ndarray) -> np.ndarray:
    vectors_UD = vectors_UD.astype(np.float64)
    return vectors_UD / np.maximum(np.linalg.norm(vectors_UD, axis=-1, keepdims=True), 1e-12)


def _nearer(within: np.ndarray, between: np.ndarray) -> float:
    """The chance that one of `within` is less than one of `between`; equal ones count half."""
    ordered = np.sort(within)
    below, up_to = np.searchsorted(ordered, between, "left"), np.searchsorted(ordered, between, "right")
    return float((below + up_to).mean() / (2 * len(within)))


@dataclass(frozen=True, eq=False)
class UsesInLayer(NotebookView):
    """The uses of a word as they are shown, with the pairs and the matrix of one layer, by its place among `found.layers`."""

    found: WordUses
    layer: int

    def lines(self, width: int = 100) -> list[str]:
        """Return lines for a terminal of `width` columns."""
        found, layer, width = self.found, self.layer, max(width, LEAST_WIDTH)
        where = {len(found.layers) - 1: "its last"}.get(layer, f"of {len(found.layers) - 2}")
        head = f"{sentence(found.word)}: {len(found.uses):,} uses, read by {sentence(found.model)}"
        lines = [cut(head, width), *_remarks(found), "", *_listing(found, width), "", *_table(found), ""]
        lines += [f"layer {found.layers[layer]}, {where}:" if layer else "the static embedding:", *_ends(found, layer, width)]
        return [*lines, *_verdict(found, layer)]

    def figure(self) -> Figure:
        return word_senses.drawn(self.found, self.layer)

    def page(self) -> bytes:
        """Return studio's view of a word's uses as one file, opened at this layer."""
        title = word_senses.title(self.found)
        return page("offline_uses.js", title, {"title": title, "layer": self.layer, **uses_data(self.found)})

    def as_dict(self) -> dict[str, Any]:
        """Return all layers, whichever is shown."""
        found, senses = self.found, self.found.senses
        return {
            "format": FORMAT,
            "word": found.word,
            "model": found.model,
            "layers": found.layers,
            "uses": [asdict(use) for use in found.uses],
            "distances": found.distances_LUU.tolist(),
            "mean": found.mean_L.tolist(),
            "other_words": _others(found),
            "senses": None if senses is None else {name[:-2]: values.tolist() for name, values in senses._asdict().items()},
            "notes": found.notes,
        }


def _others(found: WordUses) -> list[float | None]:
    return [None if np.isnan(other) else float(other) for other in found.others_L]


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
        "others": _others(found),
        "many": len(found.pairs) > word_senses.MANY,
        "pairs": base64.b64encode(np.rint(distances_LP.clip(0, 2) * (STEPS / 2)).astype("<u2").tobytes()).decode("ascii"),
        "notes": found.notes,
    }
