"""Attention weights as people read them: sub-words merged, special tokens hidden, heads joined, values weighed in.

    words          weights on the pieces of a word are summed; of queries that are pieces of one word the mean is taken, so that
                   rows still sum to one (Clark et al. 2019, section 4.1)
    specials       `hide` leaves special tokens out on both sides: rows sum to the weight that was not on them; `renormalise`
                   divides each row by that sum
    values         a weight times the length of the vector it brings: || a_ij v_j W_O ||, the value of key j through this head's
                   part of the output projection (Kobayashi et al. 2020, equation 5). Special tokens get weight but bring little
    join           the mean, or the largest, of all chosen heads and layers

This is the only place where these are computed: `regard lens`, studio and the one-file page all call `aggregate`. Weights are
rebuilt a few rows at a time, of the chosen heads. Dims: H heads, R rows at a time, M keys, W words, K head width, D width.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.lens.alignment import TOLERANCE, Alignment
from regard.lens.analyses.head_statistics import in_chunks
from regard.lens.display import sentence, visible, word_label
from regard.lens.result import NotebookView, page
from regard.lens.subject import Subject, TokenRow
from regard.model.attention import Attention
from regard.model.mixers.convolution import Convolution
from regard.model.pooling import LearnedQuery
from regard.model.probe import Probe, Seen, attentions, kv_heads
from regard.model.recurrent.decoders import Aligner

Specials = Literal["keep", "hide", "renormalise"]
Join = Literal["none", "mean", "max"]
Part = Literal["cross", "decoder", "encoder"]
MOST = 2**25  # numbers of a picture
STEPS = 65535
ROOM = 6_000_000  # numbers of a page that has all settings of its switches
SWITCHES = ("merge", "hide", "values")
UNEVEN = "Rows need not sum to one: this mixer is no softmax over the keys."
NOTES = {
    "values": "A number is the length of what a key brings: weight times value, through the output projection.",
    "hide": "Special tokens are left out; rows sum to the weight that was not on them.",
    "renormalise": "Special tokens are left out, and each row is divided by the weight that was not on them.",
}
MERGED = "Sub-words are merged: sums over keys, means over queries."


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """Settings of an aggregation of weights."""

    words: bool = False  # pieces of a word become one row or column
    values: bool = False
    specials: str = "keep"
    join: Join = "none"

    def __post_init__(self) -> None:
        if self.specials not in get_args(Specials):
            raise UserError(f"--specials {self.specials} is not known{nearest(self.specials, get_args(Specials))}")

    @property
    def note(self) -> str:
        """Say what was done where rows no longer are what the model computed."""
        return " ".join(NOTES[name] for name in ("values" * self.values, self.specials) if name in NOTES)


@dataclass(frozen=True, kw_only=True)
class Choice(Aggregation):
    """A choice of weights and their aggregation. None means all there are."""

    part: str | None = None  # cross, decoder or encoder; by default the first of these that there is
    layer: int | None = None
    head: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.part is not None and self.part not in get_args(Part):
            raise UserError(f"--part {self.part} is not a part of the model{nearest(self.part, get_args(Part))}")


class Label(NamedTuple):
    """One row or column of aggregated weights."""

    text: str
    tokens: tuple[int, ...]  # places of the tokens it stands for
    special: bool


class Aggregated(NamedTuple):
    """Weights with the names of their rows (queries) and columns (keys)."""

    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    weights_HQW: np.ndarray  # one matrix if heads were joined
    notes: tuple[str, ...] = ()  # what was done to them

    def packed(self, *, scaled: bool = False) -> dict[str, Any]:
        """Return it for JSON, numbers as base64 of float32, or of 16-bit fractions of the largest, which take half the room."""
        scale = max(float(self.weights_HQW.max()), 1e-9) / STEPS if scaled else None
        numbers = self.weights_HQW.astype("<f4") if scale is None else np.rint(self.weights_HQW / scale).astype("<u2")
        rows, columns = ([label._asdict() for label in side] for side in (self.rows, self.columns))
        encoded = base64.b64encode(numbers.tobytes()).decode("ascii")
        return {"rows": rows, "columns": columns, "notes": self.notes, "scale": scale, "weights": encoded}


@dataclass(frozen=True)
class AttentionWeights(NotebookView):
    """The weights of the chosen heads."""

    alignment: Alignment
    heads: tuple[tuple[int, ...], ...]  # numbers of the heads, layer by layer
    choice: Choice
    kv_heads: tuple[int, ...]  # heads of keys and values of each layer, each shared by a group of its heads where they are fewer

    def lines(self) -> list[str]:
        return self.alignment.lines()

    def figure(self) -> Figure:
        return self.alignment.figure()

    def page(self) -> bytes:
        return self.alignment.page()

    def as_dict(self) -> dict[str, Any]:
        a, c = self.alignment, self.choice
        done = {"kv_heads": self.kv_heads, "words": c.words, "values": c.values, "specials": c.specials}
        names = {"title": a.title, "layers": a.layers, "heads": self.heads, "queries": a.queries, "keys": a.keys}
        return {"format": "regard.weights.1", **names, **done, "weights": a.weights.tolist()}


def attention_page(subject: Subject, part: str | None = None) -> bytes:
    """Return studio's Head screen as one file: all weights of this pass, for every setting of the switches if that fits."""
    seen = subject.record()
    first = _chosen(seen, Choice(part=part))[-1]
    groups = {name: [name] for name in seen}
    for one in get_args(Part):
        if len(names := [name for name in seen if part_of(name) == one]) > 1:
            groups[one] = names
    shapes = {name: (seen[name].q_BHLK.shape[1], *map(len, token_rows(subject, name))) for name in seen}
    size = sum((heads + 3) * queries * keys for heads, queries, keys in shapes.values())
    if size > MOST:
        raise UserError(f"these are {size:,} weights, more than a page can show; choose --show weights --layer N --head N.")
    switches = next(some for some in (SWITCHES, SWITCHES[:2], ()) if not some or size * 2 ** len(some) <= ROOM)
    matrices = {}
    for on in product((False, True), repeat=len(switches)):
        words, hide, values = (*on, False, False, False)[:3]
        how = Aggregation(words=words, specials="hide" if hide else "keep", values=values)
        for name, names in groups.items():
            try:
                found = page_matrix(aggregate(subject, seen, names, None, how), alone=len(names) == 1)
            except UserError as problem:  # a text of special tokens only
                found = {"refused": str(problem)}
            matrices[f"{name} {words:d}{hide:d}{values:d}"] = found
    shared = kv_heads(subject.model)
    entries = [{"name": n, "heads": h, "kv_heads": shared[n], "queries": q, "keys": k} for n, (h, q, k) in shapes.items()]
    return _page(subject.title, first, switches, entries, matrices)


def alignment_page(alignment: Alignment) -> bytes:
    """Return studio's Head screen as one file, with these weights as they are."""
    rows, columns = (tuple(Label(name, (n,), False) for n, name in enumerate(s)) for s in (alignment.queries, alignment.keys))
    notes = (alignment.note,) if alignment.note else ()
    matrices = {
        f"{name} 000": page_matrix(Aggregated(rows, columns, weights_HQW, notes), alone=True)
        for name, weights_HQW in zip(alignment.layers, alignment.weights)
    }
    for one in get_args(Part):
        of = [n for n, name in enumerate(alignment.layers) if part_of(name) == one]
        if len(of) > 1:
            matrices[f"{one} 000"] = page_matrix(
                Aggregated(rows, columns, np.concatenate(alignment.weights[of]), notes), alone=False
            )
    shared = alignment.kv_heads or alignment.heads
    sizes = {"heads": alignment.heads, "kv_heads": shared, "queries": len(alignment.queries), "keys": len(alignment.keys)}
    entries = [{"name": name, **sizes} for name in alignment.layers]
    return _page(alignment.title, alignment.layers[-1], (), entries, matrices)


def _page(title: str, first: str, switches: Sequence[str], entries: list[dict[str, Any]], matrices: dict[str, Any]) -> bytes:
    data = {"title": sentence(title), "first": first, "switches": switches, "attentions": entries, "matrices": matrices}
    return page("offline_head.js", sentence(title), data)


def page_matrix(found: Aggregated, *, alone: bool) -> dict[str, Any]:
    """Return matrices for a page: each head, if they are of one attention `alone`, then the mean and the largest of all."""
    heads_HQW = found.weights_HQW
    joined_2QW = np.stack([heads_HQW.mean(0), heads_HQW.max(0)])
    names = [*(map(str, range(len(heads_HQW))) if alone else ()), "mean", "max"]
    rows, columns = (tuple(label._replace(text=visible(label.text)) for label in s) for s in (found.rows, found.columns))
    shown = Aggregated(rows, columns, np.concatenate([heads_HQW, joined_2QW]) if alone else joined_2QW, found.notes)
    return {"heads": names, "of": len(heads_HQW), **shown.packed(scaled=True)}


def aggregate(subject: Subject, seen: Probe, names: Sequence[str], heads: Sequence[int] | None, how: Aggregation) -> Aggregated:
    """Return the weights of these heads (None: all) of attentions that have the same tokens on both sides."""
    queries, keys = token_rows(subject, names[0])
    rows, columns = labels(queries, how), labels(keys, how)
    if not (rows and columns):
        raise UserError("nothing is left without special tokens; give --specials keep, or a longer text.")
    found = [_layer(subject, seen, name, heads, (rows, columns), how) for name in names]
    weights_HQW, joined = np.concatenate(found), ""
    if how.join != "none":
        joined = f"{'Mean' if how.join == 'mean' else 'Largest'} of {len(weights_HQW)} heads."
        weights_HQW = (weights_HQW.mean if how.join == "mean" else weights_HQW.max)(0, keepdims=True)
    return Aggregated(rows, columns, weights_HQW, tuple(note for note in (joined, how.note, MERGED * how.words) if note))


def attention_weights(subject: Subject, choice: Choice) -> AttentionWeights:
    """Return the weights of the chosen part, layers and heads, every head by itself."""
    seen = subject.record()
    names = _chosen(seen, choice)
    heads = [list(range(seen[name].q_BHLK.shape[1])) if choice.head is None else [choice.head] for name in names]
    queries, keys = token_rows(subject, names[0])
    if (size := sum(map(len, heads)) * len(labels(queries, choice)) * len(labels(keys, choice))) > MOST:
        raise UserError(f"these are {size:,} weights, more than a picture can show; choose --layer N and --head N.")
    found = [aggregate(subject, seen, [name], some, choice) for name, some in zip(names, heads)]
    shared = [kv_heads(subject.model)[name] for name in names]
    sizes = [seen[name].q_BHLK.shape[1] // groups for name, groups in zip(names, shared)]  # of groups that share keys
    layers = names if choice.head is None else [_head_name(name, choice.head, size) for name, size in zip(names, sizes)]
    weights = [one.weights_HQW for one in found]
    if len(set(map(len, heads))) > 1:  # pruning leaves layers with different numbers of heads
        weights, layers = [weights_HQW.mean(0, keepdims=True) for weights_HQW in weights], [f"{name} mean" for name in names]
    note = choice.note or ("" if np.allclose(np.stack(weights).sum(-1), 1, atol=TOLERANCE) else UNEVEN)
    rows, columns = (tuple(label.text for label in side) for side in (found[0].rows, found[0].columns))
    grouped = shared[0] if choice.head is None and min(sizes) > 1 else 0
    alignment = Alignment(subject.title, rows, columns, np.stack(weights), tuple(layers), note, grouped)
    return AttentionWeights(alignment, tuple(map(tuple, heads)), choice, tuple(shared))


def _head_name(name: str, head: int, size: int) -> str:
    return f"{name} head {head}" + (f", keys {head // size}" if size > 1 else "")


def token_rows(subject: Subject, name: str) -> tuple[TokenRow, TokenRow]:
    """Return the tokens of queries and keys. A query of cross-attention is named by the token that it writes."""
    queries, keys = subject.around(name)
    return (subject.outputs if name.endswith(".cross") and subject.outputs is not None else queries), keys


def part_of(name: str) -> str:
    """Return "cross", "decoder" or "encoder" of an attention's name."""
    return "cross" if name.endswith(".cross") else name.partition(".")[0]


def _chosen(seen: Probe, choice: Choice) -> list[str]:
    parts = {part: [name for name in seen if part_of(name) == part] for part in get_args(Part)}
    there = [part for part, names in parts.items() if names]
    part = choice.part or there[0]
    if part not in there:
        raise UserError(f"--part {part}: this model has none; it has {' and '.join(there)}.")
    names = parts[part]
    if choice.layer is not None:
        if not 0 <= choice.layer < len(names):
            raise UserError(f"--layer {choice.layer} is not there; the {part} has layers 0 to {len(names) - 1}.")
        names = [names[choice.layer]]
    least = min(seen[name].q_BHLK.shape[1] for name in names)
    if choice.head is not None and not 0 <= choice.head < least:
        raise UserError(f"--head {choice.head} is not there; heads go from 0 to {least - 1}.")
    return names


def labels(row: TokenRow, how: Aggregation) -> tuple[Label, ...]:
    """Return the rows or columns that these tokens become: one a token or a word, without special tokens if they are hidden."""
    groups: dict[int, list[int]] = {}
    for n, word in enumerate(row.words if how.words else range(len(row))):
        if how.specials == "keep" or not row.special[n]:
            groups.setdefault(word, []).append(n)
    name = word_label if how.words else "".join
    return tuple(Label(name([row.tokens[n] for n in group]), tuple(group), row.special[group[0]]) for group in groups.values())


def _layer(
    subject: Subject, seen: Probe, name: str, heads: Sequence[int] | None, sides: tuple[tuple[Label, ...], ...], how: Aggregation
) -> np.ndarray:
    """Return weights_HQW of one attention."""
    rows, columns = sides
    one, chosen = seen[name], slice(None) if heads is None else list(heads)
    norms_HM = value_norms(attentions(subject.model)[name], one)[chosen] if how.values else None
    kept, kept_M = {n for row in rows for n in row.tokens}, sorted(n for column in columns for n in column.tokens)
    words_M = _numbers(columns)
    parts = []
    for rows_R, weights_HRM in in_chunks(one, heads):
        weights_HRM = weights_HRM[:, [n for n, row in enumerate(rows_R.tolist()) if row in kept]]
        weights_HRM = (weights_HRM if norms_HM is None else weights_HRM * norms_HM[:, None])[..., kept_M].cpu()
        parts.append(merge_keys(weights_HRM, words_M) if how.words else weights_HRM)
    weights_HLW = torch.cat(parts, 1)
    if how.specials == "renormalise":
        weights_HLW = weights_HLW / weights_HLW.sum(-1, keepdim=True).clamp(min=1e-12)
    return (merge_queries(weights_HLW, _numbers(rows)) if how.words else weights_HLW).float().numpy()


def _numbers(side: tuple[Label, ...]) -> Tensor:
    """Return for each token that is left the number of its row or column, in the order of the text."""
    return torch.tensor([number for _, number in sorted((n, number) for number, one in enumerate(side) for n in one.tokens)])


def merge_keys(weights_HRM: Tensor, words_M: Tensor) -> Tensor:
    """Return weights_HRW: the sum over the keys of each word, numbered from 0."""
    count = int(words_M.max()) + 1
    return weights_HRM.new_zeros(*weights_HRM.shape[:-1], count).index_add_(-1, words_M, weights_HRM)


def merge_queries(weights_HLM: Tensor, words_L: Tensor) -> Tensor:
    """Return weights_HWM: the mean over the queries of each word, numbered from 0."""
    count = int(words_L.max()) + 1
    total_HWM = weights_HLM.new_zeros(weights_HLM.shape[0], count, weights_HLM.shape[2]).index_add_(1, words_L, weights_HLM)
    return total_HWM / torch.bincount(words_L, minlength=count)[:, None]


@torch.no_grad()
def value_norms(attention: Attention | Convolution | Aligner | LearnedQuery, seen: Seen) -> Tensor:
    """Return norms_HM: the length of what a key brings if all of a head's weight is on it, without the bias all keys share."""
    if isinstance(attention, Aligner | LearnedQuery):  # no output projection: a key brings its value
        return seen.v_BHMK[0].float().norm(dim=-1)
    out_HKD = attention.out.weight.T.unflatten(0, (seen.v_BHMK.shape[1], -1)).float()
    products_HKK = out_HKD @ out_HKD.mT  # measures the projected values without building them
    v_HMK = seen.v_BHMK[0].float()
    return ((v_HMK @ products_HKK) * v_HMK).sum(-1).clamp(min=0).sqrt()
