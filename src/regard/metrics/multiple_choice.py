"""Multiple choice by likelihood: the answer that the model finds most probable after the question.

Brown et al. 2020, section 2.4. Long answers are unlikely merely for being long, and common words likely after anything, so four
scores are in use, all larger where better: log p(answer | question) as it is; by token (GPT-3's default); by byte, which another
tokenizer leaves as it is; and less log p(answer | aside), what the answer is worth without the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import numpy as np

from regard.core.errors import UserError, nearest
from regard.metrics.likelihood import Ids, Reader, Span, score_spans

Scale = Literal["total", "per_token", "per_byte", "above_aside"]
SCALES: tuple[Scale, ...] = get_args(Scale)


@dataclass(frozen=True)
class Choice:
    """A score for every option, on every scale, in nats."""

    total: tuple[float, ...]
    per_token: tuple[float, ...]
    per_byte: tuple[float, ...]
    above_aside: tuple[float, ...]

    def best(self, scale: Scale = "per_byte") -> int:
        """Return the number of the most probable option; of equals, the first."""
        if scale not in SCALES:
            raise UserError(f"there is no scale {scale!r} for answers{nearest(scale, SCALES)}")
        return int(np.argmax(getattr(self, scale)))

    def as_dict(self) -> dict[str, list[float]]:
        """Return a dictionary for JSON."""
        return {name: list(scores) for name, scores in asdict(self).items()}


def choose(
    model: Reader,
    context_ids: Ids,
    options_ids: Sequence[Ids],
    options_bytes: Sequence[int],
    *,
    start: int,
    window: int,
    aside_ids: Ids = (),
) -> Choice:
    """Score all options in one batch, after the context and after the aside (such as "Answer:"; by default after nothing).

    A context too long for the window loses its beginning. An option carries its own leading space, if it has one.
    """
    _check(options_ids, options_bytes, window)
    rows: list[list[int]] = []
    windows: list[Span] = []
    for before in (context_ids, aside_ids):
        for option in options_ids:
            kept = before[max(0, len(before) - (window - len(option))) :]
            windows.append(Span(len(rows), 0, len(kept), len(kept) + len(option)))
            rows.append([*kept, *option])
    totals = np.empty(len(rows))
    for span, scores in score_spans(model, rows, windows, start, tokens_per_batch=len(rows) * max(map(len, rows))):
        totals[span.text] = scores.sum(dtype=np.float64)
    given, alone = np.split(totals, 2)
    tokens = np.array([len(option) for option in options_ids])
    scales = (given, given / tokens, given / np.array(options_bytes), given - alone)
    return Choice(*(tuple(scale.tolist()) for scale in scales))


def _check(options_ids: Sequence[Ids], options_bytes: Sequence[int], window: int) -> None:
    if not options_ids or len(options_ids) != len(options_bytes):
        raise UserError(f"{len(options_ids)} options came with {len(options_bytes)} lengths; give at least one option.")
    for number, (option, size) in enumerate(zip(options_ids, options_bytes), 1):
        if not len(option) or size < 1:
            raise UserError(f"option {number} is empty; give each option at least one character.")
        if len(option) > window:
            raise UserError(f"option {number} has {len(option):,} tokens, more than the window of {window:,}; shorten it.")
