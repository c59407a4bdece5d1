"""Attention as people want to read it: words instead of pieces, without marks, heads together, and by what it brings.

    words          weights on the pieces of a word are summed, for looking at any of them is looking at the word; of queries that
                   are pieces of one word the mean is taken, so that rows still sum to one (Clark et al. 2019, section 4.1)
    specials       `hide` takes marks out on both sides and leaves the rest as it is: rows sum to what was not on marks;
                   `renormalise` divides each row by that, as if marks could not have been looked at
    values         a weight times the length of the vector it brings: || a_ij v_j W_O ||, the value of key j through this head's
                   part of the output projection (Kobayashi et al. 2020, equation 5). Marks often get weight but bring little
    mean           of heads and layers, where more than one is chosen: each counts alike

Weights are rebuilt a few rows at a time, and only of the heads that are chosen. Dims: H heads, R rows at a time, M keys,
W words, K head width, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.lens.alignment import TOLERANCE, Alignment
from regard.lens.analyses.head_statistics import in_chunks
from regard.lens.output import text
from regard.lens.plots.alignment import drawn
from regard.lens.result import fragment
from regard.lens.subject import Subject, TokenRow
from regard.model.attention import Attention
from regard.model.learned_query import LearnedQuery
from regard.model.mixers.convolution import Convolution
from regard.model.probe import Probe, Seen, attentions
from regard.model.recurrent.alignment import Aligner

Specials = Literal["keep", "hide", "renormalise"]
Part = Literal["cross", "decoder", "encoder"]
MOST = 2**25  # numbers of a picture
UNEVEN = "Rows need not sum to one: what mixes here is no softmax over the keys."


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which weights, and what is done to them. None is all there are."""

    part: str | None = None  # cross, decoder or encoder; by default the first of these that there is
    layer: int | None = None
    head: int | None = None
    words: bool = False
    values: bool = False
    specials: str = "keep"

    def __post_init__(self) -> None:
        if self.part is not None and self.part not in get_args(Part):
            raise UserError(f"--part {self.part} is not a part of the model{nearest(self.part, get_args(Part))}")
        if self.specials not in get_args(Specials):
            raise UserError(f"--specials {self.specials} is not known{nearest(self.specials, get_args(Specials))}")

    @property
    def note(self) -> str:
        """What was done to the weights, where rows no longer are what the model computed."""
        told = []
        if self.values:
            told += ["A number is the length of what a key brings: weight times value, through the output projection."]
        if self.specials == "hide":
            told += ["Marks are left out; rows sum to what was not on them."]
        if self.specials == "renormalise":
            told += ["Marks are left out, and each row is divided by what was not on them."]
        return " ".join(told)


@dataclass(frozen=True)
class Attended:
    """What was looked at, by the chosen heads."""

    alignment: Alignment
    heads: tuple[tuple[int, ...], ...]  # of each layer, the numbers of its heads
    choice: Choice

    def lines(self) -> list[str]:
        return text.text(self.alignment).split("\n")

    def figure(self) -> Figure:
        return drawn(self.alignment)

    def as_dict(self) -> dict[str, Any]:
        a, c = self.alignment, self.choice
        done = {"words": c.words, "values": c.values, "specials": c.specials}
        names = {"title": a.title, "layers": a.layers, "heads": self.heads, "queries": a.queries, "keys": a.keys}
        return {"format": "regard.weights.1", **names, **done, "weights": a.weights.tolist()}

    def _repr_html_(self) -> str:
        return fragment(self)


def attended(subject: Subject, choice: Choice) -> Attended:
    seen = subject.look()
    names = _chosen(seen, choice)
    heads = [list(range(seen[name].q_BHLK.shape[1])) if choice.head is None else [choice.head] for name in names]
    queries, keys = _around(subject, names[0])
    rows, columns = _kept(queries, choice), _kept(keys, choice)
    if not (rows.any() and columns.any()):
        raise UserError("nothing is left where marks are taken out; give --specials keep, or a longer text.")
    if (size := sum(map(len, heads)) * int(rows.sum()) * int(columns.sum())) > MOST:
        raise UserError(f"these are {size:,} weights, more than a picture can show; choose --layer N and --head N.")
    found = [_weights(subject, seen, name, of, queries, keys, choice) for name, of in zip(names, heads)]
    told = names if choice.head is None else [f"{name} head {choice.head}" for name in names]
    if len(set(map(len, heads))) > 1:  # as pruning leaves them
        found, told = [weights_HQW.mean(0, keepdims=True) for weights_HQW in found], [f"{name} mean" for name in names]
    looking, looked_at = _named(queries, rows, choice.words), _named(keys, columns, choice.words)
    weights = np.stack(found)
    note = choice.note or ("" if np.allclose(weights.sum(-1), 1, atol=TOLERANCE) else UNEVEN)
    alignment = Alignment(subject.title, looking, looked_at, weights, tuple(told), note)
    return Attended(alignment, tuple(map(tuple, heads)), choice)


def _around(subject: Subject, name: str) -> tuple[TokenRow, TokenRow]:
    """Whoever looks across does so to write: such a query is named by what it writes, others by what they read."""
    queries, keys = subject.around(name)
    return (subject.outputs if name.endswith(".cross") and subject.outputs is not None else queries), keys


def _chosen(seen: Probe, choice: Choice) -> list[str]:
    parts = {part: [name for name in seen if _part(name) == part] for part in get_args(Part)}
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


def _part(name: str) -> str:
    return "cross" if name.endswith(".cross") else name.partition(".")[0]


def _weights(
    subject: Subject, seen: Probe, name: str, heads: list[int], queries: TokenRow, keys: TokenRow, choice: Choice
) -> np.ndarray:
    """weights_HQW of one layer, as chosen."""
    one = seen[name]
    norms_HM = value_norms(attentions(subject.model)[name], one)[heads] if choice.values else None
    rows, columns = _kept(queries, choice), _kept(keys, choice)
    pieces = []
    for rows_R, weights_HRM in in_chunks(one, heads):
        kept_R = rows[rows_R.numpy()]
        weights_HRM = weights_HRM[:, torch.from_numpy(kept_R)]
        weights_HRM = weights_HRM if norms_HM is None else weights_HRM * norms_HM[:, None]
        pieces.append(_by_word(weights_HRM.cpu(), keys, columns, choice.words))
    weights_HLW = torch.cat(pieces, 1)
    if choice.specials == "renormalise":
        weights_HLW = weights_HLW / weights_HLW.sum(-1, keepdim=True).clamp(min=1e-12)
    if choice.words:
        words_Q = _words(queries, rows)
        weights_HLW = merge_queries(weights_HLW, words_Q)
    return weights_HLW.numpy()


def _by_word(weights_HRM: Tensor, keys: TokenRow, columns: np.ndarray, words: bool) -> Tensor:
    weights_HRM = weights_HRM[..., torch.from_numpy(columns)]
    return merge_keys(weights_HRM, _words(keys, columns)) if words else weights_HRM


def merge_keys(weights_HRM: Tensor, words_M: Tensor) -> Tensor:
    """weights_HRW: the sum over the keys of each word, numbered from 0."""
    count = int(words_M.max()) + 1
    return weights_HRM.new_zeros(*weights_HRM.shape[:-1], count).index_add_(-1, words_M, weights_HRM)


def merge_queries(weights_HLM: Tensor, words_L: Tensor) -> Tensor:
    """weights_HWM: the mean over the queries of each word, numbered from 0."""
    count = int(words_L.max()) + 1
    total_HWM = weights_HLM.new_zeros(weights_HLM.shape[0], count, weights_HLM.shape[2]).index_add_(1, words_L, weights_HLM)
    return total_HWM / torch.bincount(words_L, minlength=count)[:, None]


@torch.no_grad()
def value_norms(attention: Attention | Convolution | Aligner | LearnedQuery, seen: Seen) -> Tensor:
    """norms_HM: how long what a key brings is, if all of a head's weight is on it; the bias, which all share, not counted."""
    if isinstance(attention, Aligner | LearnedQuery):  # what it takes from a key is its value as it is
        return seen.v_BHMK[0].float().norm(dim=-1)
    out_HKD = attention.out.weight.T.unflatten(0, (seen.v_BHMK.shape[1], -1)).float()
    products_HKK = out_HKD @ out_HKD.mT  # a head's vectors need not be made to be measured
    v_HMK = seen.v_BHMK[0].float()
    return ((v_HMK @ products_HKK) * v_HMK).sum(-1).clamp(min=0).sqrt()


def _kept(side: TokenRow, choice: Choice) -> np.ndarray:
    return np.ones(len(side), bool) if choice.specials == "keep" else ~np.array(side.special, bool)


def _words(side: TokenRow, kept: np.ndarray) -> Tensor:
    """The words of those that are kept, numbered from 0."""
    return torch.from_numpy(np.unique(np.array(side.words)[kept], return_inverse=True)[1])


def _named(side: TokenRow, kept: np.ndarray, words: bool) -> tuple[str, ...]:
    tokens = [token for token, keep in zip(side.tokens, kept) if keep]
    if not words:
        return tuple(tokens)
    named: dict[int, str] = {}
    for token, word in zip(tokens, _words(side, kept).tolist()):
        named[word] = named[word] + token.removeprefix("##") if word in named else token
    return tuple(name.removeprefix("▁") or name for name in named.values())
