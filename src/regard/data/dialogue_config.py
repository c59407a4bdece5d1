"""The `[data]` section of dialogues: where they are, and how much of them comes before a reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.held_out import must_be_share
from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class DialoguesConfig:
    """Dialogues to learn to reply from."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    turns: int = 1  # that are seen before a reply; of more, the last
    replies: Literal["every", "second"] = "every"  # which turns are learned: all but the first, or the second speaker's
    maximum_tokens: int = 256  # of a context: its oldest turns are left out, and a training reply that is longer is too
    limit: int = 0  # use only so many training dialogues; 0 is all
    held_out: float = 0.0  # where there is no valid: this share of train, picked at random, is held out for it

    def __post_init__(self) -> None:
        must_be_share(self.held_out)
        if self.turns < 1:
            raise UserError(f"data.turns={self.turns} must be at least 1: the turn that is replied to.")
        if self.maximum_tokens < 8:
            raise UserError(f"data.maximum_tokens={self.maximum_tokens} must be at least 8.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig(DialoguesConfig):
    """Dialogues whose replies are found again."""

    maximum_tokens: int = 128  # of a context, whose oldest turns are left out, and of a reply, which is cut
    compare: Literal["replies", "contexts"] = "replies"  # with what a context is compared: kept replies, or what came before them
    nearest: int = 1  # replies that are told, the nearest first; of several, each with its cosine

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nearest < 1:
            raise UserError(f"data.nearest={self.nearest} must be at least 1.")
