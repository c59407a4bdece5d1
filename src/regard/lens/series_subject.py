"""A model that forecasts as a subject: one window of a series, and which times or channels its tokens are.

A model says by `tokens_are` what the tokens of each of its stacks are: `past` or `future` times, `patches` of one channel's past,
or `channels`. Channels of patches are rows of a batch that never meet, so one channel is a subject of its own.

Dims: L look-back, H horizon, M = L + H, C channels, N tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.lens.subject import SeriesTokens, Subject, TokenRow

PATCHES = "patches"


def time_names(dates_M: np.ndarray | None, lookback: int, horizon: int) -> list[str]:
    """Return what each time is called: its date, or how many steps it is before (0: the last that is read) or ahead."""
    if dates_M is None:
        return [f"{n - lookback + 1:+d}" if n != lookback - 1 else "0" for n in range(lookback + horizon)]
    days = dates_M.astype("datetime64[D]")
    form = "%Y-%m-%d" if (dates_M == days).all() else "%d %b %H:%M"
    return [date.strftime(form) for date in dates_M.tolist()]


def series_subject(model: Any, given: Sequence[Tensor | None], series: SeriesTokens, known: Sequence[str], title: str) -> Subject:
    """Return a window as a subject; `given` are the inputs of the model, a batch of one."""
    kinds: Mapping[str, str] | None = getattr(model, "tokens_are", None)
    if kinds is None:
        raise UserError(
            f"model.family={model.config.family} has no attention over times or channels to draw; give a run of patchtst, "
            "itransformer or forecaster."
        )
    past_BLC = given[0]
    assert past_BLC is not None
    lookback, horizon = model.config.lookback, model.config.horizon
    names = time_names(series.dates_M, lookback, horizon)
    spans = {stack: _spans(kind, model.config) for stack, kind in kinds.items() if kind != "channels"}
    sides = {stack: _row([*series.channels, *known]) for stack, kind in kinds.items() if kind == "channels"}
    sides |= {stack: _row([_called(names, begin, end) for begin, end in spans_N2]) for stack, spans_N2 in spans.items()}

    def forward(copies: int) -> Tensor:
        if PATCHES in kinds.values():
            x_BLC, _ = model.normalise(past_BLC)
            found: Tensor = model.hidden(x_BLC[..., series.channel : series.channel + 1].expand(copies, -1, -1))
            return found
        found = model(*(None if part is None else part.expand(copies, *part.shape[1:]) for part in given))
        return found.flatten(2)

    return Subject(
        model=model,
        title=title,
        sides={stack: sides[stack] for stack in kinds},
        forward=forward,
        targets_L=torch.tensor([IGNORED]),
        outputs=None,
        choices=str,
        head=None,
        series=SeriesTokens(**{**vars(series), "spans": spans}),
    )


def _spans(kind: str, config: Any) -> np.ndarray:
    """Return the first time of each token and the one behind its last."""
    if kind == PATCHES:
        first = 0 if config.padded else (config.lookback - config.patch) % config.stride
        begins = first + config.stride * np.arange(config.context)
        return np.stack([begins, np.minimum(begins + config.patch, config.lookback)], 1)
    begin, end = (0, config.lookback) if kind == "past" else (config.lookback, config.lookback + config.horizon)
    return np.stack([np.arange(begin, end), np.arange(begin, end) + 1], 1)


def _called(names: Sequence[str], begin: int, end: int) -> str:
    return names[begin] if end - begin < 2 else f"{names[begin]} … {names[end - 1]}"


def _row(names: Sequence[str]) -> TokenRow:
    count = tuple(range(len(names)))
    return TokenRow(tuple(names), count, count, (False,) * len(names))
