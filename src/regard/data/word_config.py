"""The `[data]` section of a recipe for word vectors: the text they are learned from, and what they are asked afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class WordsDataConfig:
    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()  # analogies (questions-words.txt) and rated pairs (WordSim-353), one file or several
    column: str = "text"  # of JSONL and hub data
    limit: int = 0  # of a file of vectors, read only so many; 0 is all
    nearest: int = 10  # answers to each question
    by: Literal["cosine", "euclid"] = "cosine"  # how near
    analogy: Literal["add", "mul"] = "add"  # how king - man + woman is reckoned: 3CosAdd, 3CosMul
    exclude: bool = True  # the words of a question are no answers to it
    restrict: int = 30_000  # analogies are scored once more with only so many words

    def __post_init__(self) -> None:
        for key in ("nearest", "restrict"):
            if getattr(self, key) < 1:
                raise UserError(f"data.{key}={getattr(self, key)} must be at least 1.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")
        if self.by == "euclid" and self.analogy == "mul":
            raise UserError("data.analogy=mul multiplies cosines, and data.by=euclid has none; leave one of them out.")
