"""What a run answered a test set with, and what that scores: the result of every task that says something for each example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class Scores(Protocol):
    def lines(self) -> list[str]: ...

    def as_dict(self) -> dict[str, Any]: ...


Of = TypeVar("Of", bound=Scores, covariant=True)


@dataclass(frozen=True)
class Answered(Generic[Of]):
    scores: Of
    outputs: list[str]
    mistakes: str = ""  # what was done with them, for people, where they are listed

    def lines(self) -> list[str]:
        return [*self.scores.lines(), self.mistakes] if self.mistakes else self.scores.lines()

    def as_dict(self) -> dict[str, Any]:
        return self.scores.as_dict()
