"""The result of an evaluation: an output for each example of a test set, and their scores.

Mistakes on a test set, the worst first: a table in the run's folder that people can go through.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from regard.runs.folder import Run


class Scores(Protocol):
    def lines(self) -> list[str]: ...

    def as_dict(self) -> dict[str, Any]: ...


Of = TypeVar("Of", bound=Scores, covariant=True)


@dataclass(frozen=True)
class EvaluationResult(Generic[Of]):
    scores: Of
    outputs: list[str]
    mistakes: str = ""  # what was done with them, for people, where they are listed

    def lines(self) -> list[str]:
        return [*self.scores.lines(), self.mistakes] if self.mistakes else self.scores.lines()

    def as_dict(self) -> dict[str, Any]:
        return self.scores.as_dict()


MISTAKES = "errors.tsv"


def list_mistakes(
    run: Run | None, order: str, header: Sequence[str], rows: Sequence[Sequence[str]], what: str = "mistakes"
) -> str:
    """List mistakes in the run's folder and return a line about that; `order` names their order, such as "the surest first"."""
    if run is None or not os.access(run.folder, os.W_OK):
        return f"{len(rows):,} {what}; not listed, since the run's folder cannot be written"
    table = [header, *(map(on_one_line, row) for row in rows)]
    run.write(MISTAKES, "".join("\t".join(row) + "\n" for row in table))
    return f"{len(rows):,} {what}, {order}: {run.folder / MISTAKES}"


def on_one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
