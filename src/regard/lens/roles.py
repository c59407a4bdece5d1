"""What heads are for: how much of each head's weight goes where a role says it should, held against random weights.

    previous, next     the token before the query, or after it; offset k, two to four away (Voita et al. 2019)
    itself, first      the query's own place; the first token, where it is no mark
    marks              <sos>, <eos>, [CLS], [SEP], ...
    same word          other places where the query's token stands
    rare               the rarest token in sight, vocabularies being in the order of how often their pieces occur, nearly
    broad              no key in particular: the entropy of a row as a share of the most it could be
    diagonal           across: the token at the same share of the other side, or beside it
    in order           across: of every two queries, whether the later one looks farther on (Kendall's tau, 0 if it never moves)
    induction          in random tokens said twice, what followed where the query's token stood before (Olsson et al. 2022)

A score is the mean, over the queries that have such keys and are no marks, of the weight on them: what even attention would give
is told beside it. So is the best score of the same model with random weights: of many heads, some are good at anything by luck.

Dims: H heads, R rows at a time, M keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.lens.digits import brief
from regard.lens.glyphs import shorten
from regard.lens.heads import in_chunks
from regard.lens.subject import Side, Subject
from regard.model.probe import Seen

FAR = (-4, -3, -2, 2, 3, 4)
Aim = Callable[[Side, Side, Tensor, Tensor], Tensor]
"""Queries, keys, rows_R and sees_RM: which keys count for each of these rows, aims_RM."""
Head = tuple[str, int]  # of an attention


def _offset(by: int) -> Aim:
    return lambda queries, keys, rows_R, sees_RM: torch.arange(len(keys)) == rows_R[:, None] + by


def _marks(queries: Side, keys: Side, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    return torch.tensor(keys.special).expand(len(rows_R), -1)


def _first(queries: Side, keys: Side, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    return (torch.arange(len(keys)) == 0).expand(len(rows_R), -1)


def _same(queries: Side, keys: Side, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    ids_M = torch.tensor(keys.ids)
    return (ids_M == torch.tensor(queries.ids)[rows_R, None]) & (torch.arange(len(keys)) != rows_R[:, None])


def _rare(queries: Side, keys: Side, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    ids_RM = torch.tensor(keys.ids).masked_fill(torch.tensor(keys.special), -1).where(sees_RM, -1)
    return (ids_RM == ids_RM.amax(1, keepdim=True)) & (ids_RM >= 0)


def _diagonal(queries: Side, keys: Side, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    place_R = (rows_R + 0.5) * len(keys) / len(queries) - 0.5
    return (torch.arange(len(keys)) - place_R[:, None]).abs() <= 1


def induced(queries: Side, keys: Side, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    """What followed where the query's token stood before."""
    before_RM = _same(queries, keys, rows_R, sees_RM) & (torch.arange(len(keys)) < rows_R[:, None])
    return before_RM.roll(1, 1) & (torch.arange(len(keys)) > 0)


WITHIN: dict[str, Aim] = {
    "previous": _offset(-1),
    "next": _offset(1),
    **{f"offset {by:+d}": _offset(by) for by in FAR},
    "itself": _offset(0),
    "first": _first,
    "marks": _marks,
    "same word": _same,
    "rare": _rare,
}
ACROSS: dict[str, Aim] = {"diagonal": _diagonal, "first": _first, "marks": _marks, "rare": _rare}
REPEATED: dict[str, Aim] = {"induction": induced}


class Evidence(NamedTuple):
    """The query that shows a role best."""

    weight: float
    title: str
    query: str
    key: str

    def told(self, title: str) -> str:
        """In which text, where it is not the one of this title."""
        where = "" if self.title == title else f" in {shorten(self.title, 60)}"
        return f"{self.query} → {self.key} {brief(self.weight)}{where}"


@dataclass
class Tally:
    """What a head's rows came to, in one role."""

    total: float = 0.0
    even: float = 0.0  # what even attention would have come to
    rows: int = 0
    best: Evidence | None = None

    @property
    def score(self) -> float:
        return self.total / self.rows if self.rows else 0.0

    @property
    def chance(self) -> float:
        return self.even / self.rows if self.rows else 0.0


Tallies = Mapping[str, Mapping[Head, Tally]]  # by role


def tallied(subjects: Iterable[Subject], repeated: Iterable[Subject] = ()) -> Tallies:
    """Every role of every head, over texts, and over random tokens that are said twice."""
    found: dict[str, dict[Head, Tally]] = defaultdict(lambda: defaultdict(Tally))
    for subject in subjects:
        seen = subject.look()
        for name in seen:
            _tally(found, subject, name, seen[name], ACROSS if name.endswith(".cross") else WITHIN)
            _tally_whole(found, subject, name, seen[name])
    for subject in repeated:
        seen = subject.look()
        for name in seen:
            if name.endswith(".self"):
                _tally(found, subject, name, seen[name], REPEATED)
    return {role: dict(tallies) for role, tallies in found.items()}


def _tally(found: dict[str, dict[Head, Tally]], subject: Subject, name: str, seen: Seen, roles: Mapping[str, Aim]) -> None:
    queries, keys = subject.around(name)
    text = ~np.array(queries.special, bool)
    for rows_R, weights_HRM in in_chunks(seen):
        weights_HRM = weights_HRM.cpu()
        sees_RM = seen.view.rows(rows_R).cpu()[0, 0].expand(len(rows_R), len(keys))
        for role, aim in roles.items():
            aims_RM = aim(queries, keys, rows_R, sees_RM) & sees_RM
            if role != "marks":
                aims_RM &= ~torch.tensor(keys.special)  # a mark is where heads rest that have nothing to do
            kept_R = aims_RM.any(1) & torch.from_numpy(text)[rows_R]
            if not kept_R.any():
                continue
            aimed_HRM = weights_HRM[:, kept_R] * aims_RM[kept_R]
            score_HR, even_R = aimed_HRM.sum(-1), aims_RM[kept_R].sum(1) / sees_RM[kept_R].sum(1)
            for head, score_R in enumerate(score_HR):
                row = int(score_R.argmax())
                query, key = int(rows_R[kept_R][row]), int(aimed_HRM[head, row].argmax())
                shown = Evidence(float(aimed_HRM[head, row, key]), subject.title, queries.tokens[query], keys.tokens[key])
                _add(found[role][name, head], float(score_R.sum()), float(even_R.sum()), len(score_R), shown)


def _tally_whole(found: dict[str, dict[Head, Tally]], subject: Subject, name: str, seen: Seen) -> None:
    """What is not a weight on keys: how even the rows are, and whether they look in order."""
    queries, keys = subject.around(name)
    text = torch.tensor(queries.special).logical_not()
    evenness, strongest = [], []
    for rows_R, weights_HRM in in_chunks(seen):
        visible_R = seen.view.rows(rows_R).cpu()[0, 0].expand(len(rows_R), len(keys)).sum(1)
        entropy_HR = -torch.special.xlogy(weights_HRM, weights_HRM).sum(-1).cpu()
        evenness.append(torch.where(visible_R > 1, entropy_HR / visible_R.clamp(min=2).log(), torch.nan))
        strongest.append(weights_HRM.argmax(-1).cpu())
    even_HL, places_HL = torch.cat(evenness, 1)[:, text], torch.cat(strongest, 1)[:, text]
    for head in range(len(even_HL)):
        known = even_HL[head][~even_HL[head].isnan()]
        _add(found["broad"][name, head], float(known.sum()), float(len(known)), len(known), None)
        if name.endswith(".cross") and places_HL.shape[1] > 1:
            _add(found["in order"][name, head], in_order(places_HL[head].numpy()), 0.0, 1, None)


def in_order(places: np.ndarray) -> float:
    """Kendall's tau of places with their order; equal ones count as neither."""
    later = np.triu(np.sign(places[None, :] - places[:, None]), 1)
    return float(later.sum() / (len(places) * (len(places) - 1) / 2))


def _add(tally: Tally, total: float, even: float, rows: int, shown: Evidence | None) -> None:
    tally.total, tally.even, tally.rows = tally.total + total, tally.even + even, tally.rows + rows
    if shown is not None and (tally.best is None or shown.weight > tally.best.weight):
        tally.best = shown


def best(tallies: Mapping[Head, Tally]) -> Head:
    return max(tallies, key=lambda head: tallies[head].score)


def roles_of(tallies: Tallies) -> Sequence[str]:
    """The roles that could be scored, offsets as they come."""
    return [role for role in tallies if any(tally.rows for tally in tallies[role].values())]
