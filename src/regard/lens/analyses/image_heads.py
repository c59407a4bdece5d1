"""Heads of a model that reads an image: how far they look, in which direction, how much is on the class token or on itself.

    distance    in pixels between a patch and those it attends to, weights as shares     Dosovitskiy et al. 2021, figure 7
    right, down the mean offset in pixels: where a head looks on the whole; even attention has none
    class       the share on the class token, and on other tokens that are no patch
    itself      the share of a patch on itself

Each is a mean over the patches as queries. Distance and offset are of the weight that goes to patches, brought to one: the class
token lies nowhere, and would count as no distance. Beside them stands the distance of even attention, which depends on the size
of the image alone, and the same model with random weights: a head is called by a role only if it is far from that.

Dims: H heads, R rows at a time, M tokens, P patches.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.lens.analyses.head_statistics import in_chunks
from regard.lens.analyses.image_attention import image_of, readers
from regard.lens.display import Cell, brief, report
from regard.lens.plots.image_heads import Dot, drawn
from regard.lens.result import NotebookView
from regard.lens.subject import ImageTokens, Subject
from regard.model.probe import Probe, Seen

MEASURES = ("distance", "right", "down", "class", "itself")
MOST = 0.5  # of a head's weight: so much on one kind of token is its role
ASIDE = 0.3  # of a head's distance: so long an offset is a direction
NEAR, FAR = 0.6, 0.9  # of the distance of even attention: below the first a head is local, above the second it looks everywhere
LEAST = 0.1  # of the even distance, or of a share: by so much a role must be apart from that of random weights


@dataclass(frozen=True)
class ImageHead:
    """Numbers of one head; lengths in pixels."""

    attention: str
    head: int
    distance: float
    right: float
    down: float
    marks: float
    itself: float

    def measured(self, measure: str) -> float:
        return float(getattr(self, "marks" if measure == "class" else measure))


@dataclass(frozen=True)
class ImageRoles(NotebookView):
    FORMAT = "regard.image_roles.1"
    title: str
    heads: tuple[ImageHead, ...]
    random: tuple[ImageHead, ...]  # of the same model with random weights; none where it was not built
    even: float  # pixels: the distance of attention that is the same to every patch
    patch: tuple[float, float]  # pixels, high and wide

    def role(self, n: int) -> str:
        """Say in a word what a head does, if it is apart from what random weights do."""
        head = self.heads[n]
        if head.marks >= MOST and self._apart("class", head, 1.0):
            return "class token"
        if head.itself >= MOST and self._apart("itself", head, 1.0):
            return "itself"
        way = max((abs(head.right), "right" if head.right > 0 else "left"), (abs(head.down), "down" if head.down > 0 else "up"))
        if way[0] >= max(ASIDE * head.distance, max(self.patch) / 2) and self._apart(
            "right" if way[1] in ("right", "left") else "down", head, self.even
        ):
            return way[1]
        if not self._apart("distance", head, self.even):
            return "as random"
        return "local" if head.distance <= NEAR * self.even else "wide" if head.distance >= FAR * self.even else "medium"

    def _apart(self, measure: str, head: ImageHead, scale: float) -> bool:
        """Return whether a head is apart from every head of random weights."""
        return all(abs(head.measured(measure) - other.measured(measure)) >= LEAST * scale for other in self.random)

    def lines(self) -> list[str]:
        told = (
            f"{len(self.heads)} heads; lengths in pixels, of which a patch has {self.patch[1]:g} × {self.patch[0]:g}; "
            f"even attention reaches {brief(self.even, 1)}"
        )
        if self.random:
            low, high = (brief(end(head.distance for head in self.random), 1) for end in (min, max))
            told += f", random weights {low} to {high}"
        rows: list[list[Cell]] = [
            [head.attention, head.head, *(head.measured(measure) for measure in MEASURES), self.role(n)]
            for n, head in enumerate(self.heads)
        ]
        return report(self.title, told, ["attention", "head", *MEASURES, "role"], rows)

    def figure(self) -> Figure:
        caption = (
            "mean attention distance of every head by layer, with an arrow where it looks on the whole; line: even attention; "
            "grey: the same model with random weights. Attention says where a model looked, not why it answered."
        )
        layers = list(dict.fromkeys(head.attention for head in self.heads))
        dots, random = (
            [Dot(layers.index(head.attention), head.distance, head.right, head.down) for head in heads]
            for heads in (self.heads, self.random)
        )
        values = {m: [[h.measured(m) for h in self.heads if h.attention == name] for name in layers] for m in MEASURES}
        return drawn(self.title, caption, layers, dots, random, self.even, values)

    def as_dict(self) -> dict[str, Any]:
        own = {"title": self.title, "pixels": "of the image as the model reads it", "patch": self.patch, "even": self.even}
        heads = [{**_numbers(head), "role": self.role(n)} for n, head in enumerate(self.heads)]
        return {"format": self.FORMAT, **own, "heads": heads, "random": [_numbers(head) for head in self.random]}


def _numbers(head: ImageHead) -> dict[str, Any]:
    return {"class" if field.name == "marks" else field.name: getattr(head, field.name) for field in fields(head)}


def image_roles(subject: Subject, random: Subject | None = None, seen: Probe | None = None) -> ImageRoles:
    """Return the roles of all heads on one image; `random` is the same image before the same model with random weights."""
    image = image_of(subject)
    others = () if random is None else image_heads(random)
    return ImageRoles(subject.title, image_heads(subject, seen), others, even_distance(image), image.patch)


def image_heads(subject: Subject, seen: Probe | None = None) -> tuple[ImageHead, ...]:
    """Return the numbers of every head that reads the image; `seen` if the pass was recorded already."""
    image = image_of(subject)
    seen = subject.record() if seen is None else seen
    return tuple(head for name in readers(subject, seen) for head in _measured(name, seen[name], image))


def offsets(image: ImageTokens) -> tuple[Tensor, Tensor, Tensor]:
    """Return away_PP, right_PP and down_PP: from a patch to another, in pixels."""
    (high, wide), places = image.patch, torch.arange(image.count)
    rows_P, columns_P = (places // image.columns).double() * high, (places % image.columns).double() * wide
    right_PP, down_PP = columns_P - columns_P[:, None], rows_P - rows_P[:, None]
    return torch.hypot(right_PP, down_PP), right_PP, down_PP


def even_distance(image: ImageTokens) -> float:
    """Return the mean distance of attention that is the same to every patch, or to every earlier pixel."""
    away_PP, _, _ = offsets(image)
    if not image.ahead:
        return float(away_PP.mean())
    earlier_PP = torch.ones_like(away_PP).tril(-1)[1:]
    return float(((away_PP[1:] * earlier_PP).sum(1) / earlier_PP.sum(1)).mean())


def _measured(name: str, seen: Seen, image: ImageTokens) -> list[ImageHead]:
    apart = dict(zip(("distance", "right", "down"), offsets(image)))
    heads, tokens = seen.q_BHLK.shape[1], seen.k_BHMK.shape[2]
    total = {field.name: torch.zeros(heads, dtype=torch.float64) for field in fields(ImageHead)[2:]}
    begin, cells = image.first - image.ahead, image.count * image.tokens
    keys_M = torch.arange(image.first, min(tokens, image.first + cells))
    cell_M = (keys_M - image.first) // image.tokens
    count = 0
    for rows_R, weights_HRM in in_chunks(seen):
        kept_R = (rows_R >= begin) & (rows_R < begin + cells)
        if not kept_R.any():
            continue
        cell_R, weights_HRM = (rows_R[kept_R] - begin) // image.tokens, weights_HRM.cpu()[:, kept_R].double()
        on_patches_HRM = weights_HRM[..., keys_M]
        on_patches_HR1 = on_patches_HRM.sum(-1, keepdim=True)
        shares_HRM = on_patches_HRM / on_patches_HR1.clamp(min=1e-12)
        for measure, apart_PP in apart.items():
            total[measure] += (shares_HRM * apart_PP[cell_R][:, cell_M]).sum((1, 2))
        total["marks"] += (weights_HRM.sum(-1) - on_patches_HR1[..., 0]).sum(1)
        total["itself"] += (on_patches_HRM * (cell_R[:, None] == cell_M)).sum((1, 2))
        count += len(cell_R)
    means = {measure: (sum_H / max(1, count)).tolist() for measure, sum_H in total.items()}
    return [ImageHead(name, head, **{measure: means[measure][head] for measure in means}) for head in range(heads)]
