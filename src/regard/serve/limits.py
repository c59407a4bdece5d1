"""The limits of `regard serve`, typed as `--limit NAME=VALUE`; every request is held to them before a model sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from regard.core.config import Bounds, Count, build, check_bounds, override
from regard.serve.work import EngineSettings

Seconds = Annotated[float, Bounds(0, 86_400, above=True)]
Own = Annotated[int, Bounds(0, zero="the run's own")]
SECTION = "limit"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes, counts and times."""

    rows: Count = 64  # texts that one model writes together
    queue: Count = 256  # requests that wait for one model; more are refused with 429
    memory: Annotated[int, Bounds(0, zero="half of what is free")] = 0  # bytes for texts being written, of one model
    batch: Count = 4096  # padded length of one pass over inputs or prompts
    tokens: Own = 0  # tokens that a text may be written to
    samples: Count = 16  # texts written for one input
    texts: Count = 64  # inputs in one request
    characters: Count = 100_000  # of one text
    body: Annotated[int, Bounds(1024, 2**31)] = 4 * 2**20  # bytes of a request
    connections: Count = 512  # open at the same time, in one process
    timeout: Seconds = 300.0  # seconds until a request that is not answered gets 504
    idle: Seconds = 10.0  # seconds for a connection to send the head of a request
    upload: Seconds = 60.0  # seconds for the rest of a request to arrive
    unread: Seconds = 30.0  # seconds that a client may leave an answer unread
    grace: Seconds = 60.0  # seconds after SIGTERM for requests that were accepted

    def __post_init__(self) -> None:
        check_bounds(self, f"{SECTION}.")

    @property
    def engine(self) -> EngineSettings:
        return EngineSettings(
            rows=self.rows,
            queue=self.queue,
            memory=self.memory,
            max_tokens=self.tokens,
            batch_length=self.batch,
            samples=self.samples,
        )


def read_limits(typed: Sequence[str]) -> Limits:
    """Return the limits that were typed as NAME=VALUE; a mistyped name is refused with the nearest one."""
    tables: dict[str, dict[str, Any]] = {SECTION: {}}
    override(tables, [f"{SECTION}.{text}" for text in typed])
    return build(Limits, tables[SECTION], SECTION)
