"""Roles of heads: how much of each head's weight goes where a role says it should, beside random weights.

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
is given beside it. So is the best score of the same model with random weights: of many heads, some are good at anything by luck.

Dims: H heads, R rows at a time, M keys.

The roles of a model's heads as a result: the best head for each, with its evidence and what luck would give; all in JSON.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.lens.analyses.head_statistics import in_chunks
from regard.lens.analyses.relations import Relations
from regard.lens.display import brief, sentence, shorten, table, visible
from regard.lens.plots.charts import Field, atlas, by_attention
from regard.lens.result import NotebookView
from regard.lens.subject import Subject, TokenRow
from regard.model.probe import Seen

FAR = (-4, -3, -2, 2, 3, 4)
Aim = Callable[[TokenRow, TokenRow, Tensor, Tensor], Tensor]
"""Queries, keys, rows_R and sees_RM: which keys count for each of these rows, aims_RM."""
Head = tuple[str, int]  # of an attention


def _offset(by: int) -> Aim:
    return lambda queries, keys, rows_R, sees_RM: torch.arange(len(keys)) == rows_R[:, None] + by


def _marks(queries: TokenRow, keys: TokenRow, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    return torch.tensor(keys.special).expand(len(rows_R), -1)


def _first(queries: TokenRow, keys: TokenRow, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    return (torch.arange(len(keys)) == 0).expand(len(rows_R), -1)


def _same(queries: TokenRow, keys: TokenRow, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    ids_M = torch.tensor(keys.ids)
    return (ids_M == torch.tensor(queries.ids)[rows_R, None]) & (torch.arange(len(keys)) != rows_R[:, None])


def _rare(queries: TokenRow, keys: TokenRow, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    ids_RM = torch.tensor(keys.ids).masked_fill(torch.tensor(keys.special), -1).where(sees_RM, -1)
    return (ids_RM == ids_RM.amax(1, keepdim=True)) & (ids_RM >= 0)


def _diagonal(queries: TokenRow, keys: TokenRow, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    place_R = (rows_R + 0.5) * len(keys) / len(queries) - 0.5
    return (torch.arange(len(keys)) - place_R[:, None]).abs() <= 1


def induced(queries: TokenRow, keys: TokenRow, rows_R: Tensor, sees_RM: Tensor) -> Tensor:
    """Return the keys that followed earlier occurrences of the query's token."""
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
        """Describe it; with its text if that is not the one of this title."""
        where = "" if self.title == title else f" in {shorten(self.title, 60)}"
        return f"{self.query} → {self.key} {brief(self.weight)}{where}"


@dataclass
class Tally:
    """The rows of a head, summed up for one role."""

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


def tally_roles(subjects: Iterable[Subject], repeated: Iterable[Subject] = ()) -> Tallies:
    """Every role of every head, over texts, and over random tokens that are said twice."""
    found: dict[str, dict[Head, Tally]] = defaultdict(lambda: defaultdict(Tally))
    for subject in subjects:
        seen = subject.record()
        for name in seen:
            _tally(found, subject, name, seen[name], ACROSS if name.endswith(".cross") else WITHIN)
            _tally_whole(found, subject, name, seen[name])
    for subject in repeated:
        seen = subject.record()
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
    """Tally what is not a weight on keys: how even the rows are, and whether they move in order."""
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


LEAST = 0.1  # by so much a head's score must be above the best of random weights to be called its role
NONE, OFFSET = "none", "offset"


@dataclass(frozen=True)
class Roles(NotebookView):
    title: str
    trained: Tallies
    random: Tallies
    relations: Relations | None = None

    def main(self, head: Head) -> str:
        """The role in which a head is farthest ahead of every head with random weights."""
        ahead = {role: self.trained[role][head].score - self.luck(role) for role in self.trained if head in self.trained[role]}
        role = max(ahead, key=lambda role: ahead[role])
        return role if ahead[role] >= LEAST else NONE

    def luck(self, role: str) -> float:
        """The best score of any head of the model with random weights."""
        return max((tally.score for tally in self.random.get(role, {}).values()), default=0.0)

    @property
    def heads(self) -> list[Head]:
        return list(self.trained["broad"])

    def lines(self) -> list[str]:
        rows: list[list[str | int | float | None]] = []
        for role in self._listed():
            head = best(self.trained[role])
            tally = self.trained[role][head]
            even = None if role == "in order" else tally.chance
            told = "" if tally.best is None else sentence(tally.best.told(self.title))
            rows.append([role, f"{head[0]} {head[1]}", tally.score, even, self.luck(role), told])
        header = ["role", "best head", "score", "even", "random model", "seen best at"]
        lines = [sentence(self.title), "how much weight goes where a role says, beside the same model with random weights", ""]
        lines += [*table(header, rows), "", *self._by_role()]
        return lines if self.relations is None else [*lines, "", *self.relations.lines()]

    def _listed(self) -> list[str]:
        """Return the roles to list: of the offsets, only those that are some head's best."""
        roles = roles_of(self.trained)
        offsets = [role for role in roles if role.startswith(OFFSET)]
        kept = max(offsets, key=lambda role: self.trained[role][best(self.trained[role])].score, default=None)
        return [role for role in roles if role == kept or role not in offsets]

    def _by_role(self) -> list[str]:
        by_role: dict[str, dict[str, list[str]]] = {}
        for name, head in self.heads:
            by_role.setdefault(self.main((name, head)), {}).setdefault(name, []).append(str(head))
        lines = [f"each head by the role in which it is farthest ahead of random weights, by {LEAST} or more:"]
        for role, named in sorted(by_role.items(), key=lambda item: item[0] == NONE):
            told = ", ".join(f"{name} {' '.join(heads)}" for name, heads in named.items())
            lines += [f"{role:<10}  {told}"]
        return lines

    def figure(self) -> Figure:
        fields = []
        for role in self._listed():
            tallies = self.trained[role]
            scores = ((head[0], tallies[head].score if head in tallies else float("nan")) for head in self.heads)
            fields.append(Field(role, by_attention(scores), full=1.0))
        return atlas(self.title, "the weight that each head has where a role says; layers down, heads across", fields)

    def as_dict(self) -> dict[str, Any]:
        roles = {}
        for role in roles_of(self.trained):
            chosen = best(self.trained[role])
            evidence = self.trained[role][chosen].best
            roles[role] = {
                "best": {"attention": chosen[0], "head": chosen[1], "score": self.trained[role][chosen].score},
                "even": self.trained[role][chosen].chance,
                "random": self.luck(role),
                "evidence": None
                if evidence is None
                else {**evidence._asdict(), "query": visible(evidence.query), "key": visible(evidence.key)},
            }
        heads = [
            {
                "attention": name,
                "head": head,
                "role": self.main((name, head)),
                "scores": {role: self.trained[role][name, head].score for role in roles if (name, head) in self.trained[role]},
            }
            for name, head in self.heads
        ]
        relations = None if self.relations is None else self.relations.as_dict()
        return {"format": "regard.roles.1", "title": self.title, "roles": roles, "heads": heads, "relations": relations}
