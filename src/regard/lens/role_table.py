"""The roles of a model's heads as a result: the best head for each, with its evidence and what luck would give; all in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from regard.lens import atlas
from regard.lens.atlas import Field
from regard.lens.glyphs import sentence, visible
from regard.lens.relations import Relations
from regard.lens.roles import Head, Tallies, best, roles_of
from regard.lens.shown import fragment
from regard.lens.table import table

LEAST = 0.1  # by so much a head's score must be above the best of random weights to be called its role
NONE, OFFSET = "none", "offset"


@dataclass(frozen=True)
class Roles:
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
        """Of the offsets only the one that some head is best at."""
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
            values: dict[str, list[float]] = {}
            for name, head in self.heads:
                known = (name, head) in self.trained[role]
                values.setdefault(name, []).append(self.trained[role][name, head].score if known else float("nan"))
            fields.append(Field(role, values, full=1.0))
        return atlas.drawn(self.title, "the weight that each head has where a role says; layers down, heads across", fields)

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

    def _repr_html_(self) -> str:
        return fragment(self)
