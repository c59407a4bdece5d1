"""The `[data]` section: where the examples are, and which of them are used."""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # source and target column of TSV, CSV, JSONL and hub data
    maximum_tokens: int = 256  # a training pair with a longer side is left out, and counted
    limit: int = 0  # use only so many training pairs; 0 is all

    def __post_init__(self) -> None:
        for key in ("train", "valid"):
            if not getattr(self, key):
                raise UserError(f"data.{key} is empty; give a file, two aligned files as a,b, or hf:NAME.")
        if len(self.columns) not in (0, 2):
            raise UserError(f"data.columns has {len(self.columns)} names; give two, source,target.")
        if self.maximum_tokens < 1:
            raise UserError(f"data.maximum_tokens={self.maximum_tokens} must be at least 1.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")
