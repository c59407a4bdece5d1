"""Attention inside a model that reads an image, as maps over the image.

    patch        what one patch attends to
    latents      which pixels a Perceiver's latents attend to
    class        what the class token attends to (of a model that pools by attention: what its query attends to)
    rollout      shares of the patches in what the head reads, through all layers          Abnar & Zuidema 2020

A map has a number for every patch; what goes to tokens that are no patch (class, distillation) is given beside it. Weights are
rebuilt from what a probe recorded, so the pass is the fast one.

Rollout multiplies the mean weights of all heads from layer to layer, with half of each step for the residual stream. It says
from which patches information could have come, not which of it was used, and it is the same for every class; what speaks for one
class is in `image_relevance.py`.

Dims: L layers, H heads, T tokens, N maps, Y X rows and columns of patches, C colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.rollout import KEPT, LONGEST, mean_weights
from regard.lens.display import Cell, bar, brief, sentence, table
from regard.lens.plots.image_maps import sheet, visible_words
from regard.lens.result import NotebookView
from regard.lens.subject import ImageTokens, Subject
from regard.model.probe import Probe

BESIDE = 4  # the most tokens other than patches whose weights the caption lists
LATENTS = 17  # that are shown
NOT_WHY = "Attention says where a model looked, not why it answered."
POOLS = "what the query that pools the patches attends to."
COULD = "It says from which patches information could have come, not which of it was used."


@dataclass(frozen=True, eq=False)
class ImageMaps(NotebookView):
    """Maps over one image: a number for every patch, from zero up."""

    FORMAT = "regard.image_maps.1"
    title: str
    view: str
    caption: str  # what a map shows
    image_YXC: np.ndarray  # bytes
    names: tuple[str, ...]  # of the maps
    maps_NYX: np.ndarray
    rest: tuple[dict[str, float], ...] = ()  # of each map: the weight on tokens that are no patch, by their name
    mark: tuple[int, int] | None = None  # the row and column of the patch that attends, from 0

    def lines(self) -> list[str]:
        others = list(dict.fromkeys(name for found in self.rest for name in found))
        rows: list[list[Cell]] = []
        for n, (name, map_YX) in enumerate(zip(self.names, self.maps_NYX)):
            row, column = divmod(int(map_YX.argmax()), map_YX.shape[1])
            most, whole = float(map_YX.max()), float(map_YX.sum()) or 1.0
            half = int((np.cumsum(np.sort(map_YX.ravel())[::-1]) < whole / 2).sum()) + 1
            beside = [self.rest[n].get(other) for other in others]
            rows.append([visible_words(name), bar(most / whole), most, f"{row + 1},{column + 1}", half, *beside])
        down, across = self.maps_NYX.shape[1:]
        told = [sentence(self.title), self.caption, f"{down} × {across} cells; each is named by its row and column", ""]
        return [*told, *table(["", "", "largest", "at", "half of it in", *others], rows)]

    def figure(self) -> Figure:
        return sheet(self.title, f"{self.caption} {NOT_WHY}", self.image_YXC, self.names, self.maps_NYX, self.mark)

    def as_dict(self) -> dict[str, Any]:
        maps = [[[float(f"{value:.9g}") for value in row] for row in map_YX] for map_YX in self.maps_NYX.tolist()]
        mark = None if self.mark is None else [n + 1 for n in self.mark]
        named = {"title": self.title, "view": self.view, "caption": self.caption, "patch": mark}
        return {"format": self.FORMAT, **named, "names": self.names, "maps": maps, "beside": list(self.rest)}


def image_of(subject: Subject) -> ImageTokens:
    """Return which tokens are patches; a subject without any is refused."""
    if subject.image is None:
        raise UserError("this model reads no image, so it has no patches; give a run that does, such as one of regard train vit.")
    return subject.image


def classified(subject: Subject) -> ImageTokens:
    """Return the patches of an image that is classified; one that is drawn is refused."""
    image = image_of(subject)
    if image.ahead:
        raise UserError("this model draws images and says no class of them; --show patch --patch ROW,COLUMN is for its pixels.")
    return image


def readers(subject: Subject, seen: Probe) -> list[str]:
    """Return the self-attentions among all tokens of the image, in the order data flows."""
    image = image_of(subject)
    found = [name for name in seen if name.endswith(".self") and subject.between(name) == (image.stack, image.stack)]
    if not found:
        raise UserError("no patch of this image attends to another one in this model, so there is no map to draw.")
    return found


def pooler(subject: Subject, seen: Probe) -> str | None:
    """Return the attention of one query by which the head reads the patches, if it does."""
    alone = [name for name in seen if name in subject.apart and len(subject.around(name)[0]) == 1]
    return next((name for name in alone if len(subject.around(name)[1]) == image_of(subject).count), None)


def readings(subject: Subject, seen: Probe) -> list[str]:
    """Return the attentions by which latents read the image, in the order data flows."""
    image = image_of(subject)
    crossing = [name for name in seen if subject.between(name)[1] == image.stack != subject.between(name)[0]]
    return [name for name in crossing if len(subject.around(name)[0]) > 1]


def asking(subject: Subject, seen: Probe) -> str | None:
    """Return the attention by which the answer reads latents, if it does."""
    found = readings(subject, seen)
    latents = subject.between(found[0])[0] if found else ""
    return next((name for name in seen if subject.between(name)[1] == latents != subject.between(name)[0]), None)


def rows_of(subject: Subject, seen: Probe, names: Sequence[str], token: int) -> list[np.ndarray]:
    """Return for each layer weights_HT: what a token attends to, by every head."""
    with torch.no_grad():
        return [seen[name].weights(rows=[token])[0, :, 0].float().cpu().numpy() for name in names]


def patch_maps(subject: Subject, row: int, column: int, layer: int | None = None, head: int | None = None) -> ImageMaps:
    """Return what a patch attends to, rows and columns from 0: the mean of each layer, or of one layer each head."""
    image = image_of(subject)
    token, seen = image.token(row, column), subject.record()
    which = f"{image.unit} {row + 1},{column + 1}"
    caption = f"what {which} attended to as it was drawn" if image.ahead else f"what {which} attends to"
    return _attended(subject, seen, token, "patch", caption, layer, head, (row, column))


def class_maps(subject: Subject, layer: int | None = None, head: int | None = None) -> ImageMaps:
    """Return what the class token attends to by layer; where attention pools the patches, what that attends to."""
    image, seen = classified(subject), subject.record()
    if image.first:
        return _attended(subject, seen, 0, "class", "what the class token attends to", layer, head, None)
    if (name := pooler(subject, seen) or asking(subject, seen)) is None:
        raise UserError(
            "this model has no class token: its head reads the mean of all patches; --show rollout shows what reaches that mean, "
            "and --show patch --patch ROW,COLUMN what one patch attends to."
        )
    if layer is not None or head is not None:
        raise UserError("this model has no class token in its layers, only a query at its end; leave --layer and --head out.")
    told = "by way of the latents, what the answer attends to." if readings(subject, seen) else POOLS
    return maps_of(subject, "class", told, [name], begin_of(subject, seen)[None])


def latent_maps(subject: Subject, layer: int | None = None, head: int | None = None) -> ImageMaps:
    """Return what the latents of a reading attend to: their mean, then those that the answer attends to most."""
    seen = subject.record()
    if not (found := readings(subject, seen)):
        raise UserError(
            "this model has no latents that read its image; --show patch and --show rollout are for models of patches."
        )
    name = found[0 if layer is None else _within(layer, len(found), "layer")]
    heads = seen[name].q_BHLK.shape[1]
    weights_NT = mean_weights(seen[name], None if head is None else [_within(head, heads, "head")])
    asks = asking(subject, seen)
    asked_N = weights_NT.max(1) if asks is None else mean_weights(seen[asks]).mean(0)
    order = np.argsort(-asked_N, kind="stable")[:LATENTS]
    names = ["all latents", *(f"latent {n} {brief(float(asked_N[n]))}" for n in order)]
    which = "the mean of its heads" if head is None else f"head {head}"
    told = "those with the largest weights" if asks is None else "those that the answer attends to most, with its weight"
    caption = f"what latents attend to in reading {found.index(name)}, {which}: their mean, then {told}."
    return maps_of(subject, "latents", caption, names, np.concatenate([weights_NT.mean(0)[None], weights_NT[order]]))


def _attended(
    subject: Subject, seen: Probe, token: int, view: str, told: str, layer: int | None, head: int | None, mark: Any
) -> ImageMaps:
    names = readers(subject, seen)
    chosen = names if layer is None else [names[_within(layer, len(names), "layer")]]
    rows = rows_of(subject, seen, chosen, token)
    if head is not None:
        _within(head, min(map(len, rows)), "head")
    if layer is None and head is None:
        labels, told = [f"layer {n}" for n in range(len(names))], f"{told}: by layer, the mean of its heads."
        weights = [row_HT.mean(0) for row_HT in rows]
    elif layer is None:
        labels, told = [f"layer {n} head {head}" for n in range(len(names))], f"{told}: head {head} of every layer."
        weights = [row_HT[head] for row_HT in rows]
    elif head is not None:
        labels, told, weights = [f"head {head}"], f"{told}: layer {layer}.", [rows[0][head]]
    else:
        labels = ["mean", *(f"head {n}" for n in range(len(rows[0])))]
        told, weights = f"{told}: layer {layer}, the mean of its heads and each of them.", [rows[0].mean(0), *rows[0]]
    return maps_of(subject, view, told, labels, np.stack(weights), mark)


def _within(number: int, count: int, what: str) -> int:
    if not 0 <= number < count:
        last = f"0, its only {what}" if count == 1 else f"one of its {count} {what}s, numbered from 0 to {count - 1}"
        raise UserError(f"--{what} {number} is not there in this model; give {last}.")
    return number


def maps_of(
    subject: Subject, view: str, caption: str, names: Sequence[str], weights_NT: np.ndarray, mark: tuple[int, int] | None = None
) -> ImageMaps:
    """Take the patches out of rows over all tokens."""
    image = image_of(subject)
    tokens = subject.sides[image.stack].tokens
    rest = tuple({tokens[n]: float(row[n]) for n in range(image.first)} for row in weights_NT)
    if image.first > BESIDE:  # of a small image that stands before a large one: its pixels together
        rest = tuple({"all before": float(row[: image.first].sum())} for row in weights_NT)
    maps_NYX = image.on_grid(weights_NT)
    return ImageMaps(subject.title, view, caption, image.image_YXC, tuple(names), maps_NYX, rest, mark)


def begin_of(subject: Subject, seen: Probe) -> np.ndarray:
    """Return share_T: how much of each token's last vector the head reads; of latents, by way of what they read."""
    image = classified(subject)
    if (asks := asking(subject, seen)) is not None:
        reads_NT = np.mean([mean_weights(seen[name]) for name in readings(subject, seen)], axis=0)
        return np.asarray(mean_weights(seen[asks]).mean(0) @ reads_NT)
    share_T = np.zeros(len(subject.sides[image.stack]))
    pool, patches = pooler(subject, seen), slice(image.first, image.first + image.count)
    if image.reads:
        share_T[list(image.reads)] = 1 / len(image.reads)
    else:
        share_T[patches] = 1 / image.count if pool is None else mean_weights(seen[pool])[0]
    return share_T


def rolled_out(subject: Subject, seen: Probe, begin_T: np.ndarray) -> np.ndarray:
    """Return shares_LT: by how far down the layers are multiplied, from the last one alone to all of them."""
    if len(begin_T) > LONGEST:
        raise UserError(
            f"the image is {len(begin_T):,} tokens, but shares are multiplied for at most {LONGEST:,}; give a model of fewer."
        )
    if readings(subject, seen):
        return _through_latents(subject, seen)[None]
    shares_T, found = begin_T, []
    for name in reversed(readers(subject, seen)):
        shares_T = KEPT * shares_T + (1 - KEPT) * (shares_T @ mean_weights(seen[name]))
        found.append(shares_T)
    return np.stack(found)


def _through_latents(subject: Subject, seen: Probe) -> np.ndarray:
    """Return share_T of what the answer reads: of what latents hold, half goes down each layer, and half to each reading."""
    asks, reads = asking(subject, seen), readings(subject, seen)
    share_T, share_N = np.zeros(image_of(subject).count), np.zeros(0)
    for name in reversed(list(seen)):
        weights = mean_weights(seen[name])
        if name == asks:
            share_N = weights.mean(0)
        elif name in reads:
            share_T, share_N = share_T + (1 - KEPT) * (share_N @ weights)[: len(share_T)], KEPT * share_N
        elif len(share_N):
            share_N = KEPT * share_N + (1 - KEPT) * (share_N @ weights)
    return share_T


def image_rollout(subject: Subject, row: int | None = None, column: int | None = None) -> ImageMaps:
    """Return rollout of what the head reads, or of a patch, through the last layers: one, two, ... up to all of them."""
    image, seen = image_of(subject), subject.record()
    if row is not None and column is not None:
        readers(subject, seen)
        told, mark = f"{image.unit} {row + 1},{column + 1}", (row, column)
        begin_T = np.zeros(len(subject.sides[image.stack]))
        begin_T[image.token(row, column)] = 1
    else:
        begin_T, told, mark = begin_of(subject, seen), reads_in_words(subject), None
    shares_LT = rolled_out(subject, seen, begin_T)
    depth = len(shares_LT)
    names = [f"from layer {depth - 1 - n}" if n < depth - 1 else "all layers" for n in range(depth)]
    caption = f"attention rollout of {told}: shares of the patches, as they enter that layer. {COULD}"
    return maps_of(subject, "rollout", caption, names[::-1], shares_LT[::-1], mark)


def reads_in_words(subject: Subject) -> str:
    """Say in words what the head reads."""
    image = image_of(subject)
    if not image.reads:
        return "what the answer reads" if any(keys == image.stack for _, keys in subject.apart.values()) else "all patches"
    tokens = subject.sides[image.stack].tokens
    return " and ".join(tokens[n] for n in image.reads)
