"""Attention inside a model that forecasts, over time or between channels: the mean over heads of each layer, or each head of one.

A row is what one token attends to. Where keys are times or patches of times, a row is drawn along the series that it reads.

Dims: N maps, Q queries, K keys, L look-back, H horizon, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.weights import Choice, attention_weights
from regard.lens.display import Cell, brief, sentence, table
from regard.lens.plots.series_attention import draw_channels, draw_times
from regard.lens.result import NotebookView
from regard.lens.subject import SeriesTokens, Subject

MOST_ROWS = 24  # of queries that are printed
STRONGEST = 3  # keys of a query that are printed


@dataclass(frozen=True, eq=False)
class SeriesAttention(NotebookView):
    FORMAT = "regard.series_attention.1"
    title: str
    caption: str
    series: SeriesTokens
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    query_spans: np.ndarray | None  # of times; None: queries and keys are channels
    key_spans: np.ndarray | None
    names: tuple[str, ...]  # of the maps
    weights_NQK: np.ndarray

    def lines(self) -> list[str]:
        every = -(-len(self.queries) // MOST_ROWS)
        mean_QK = self.weights_NQK.mean(0)
        rows: list[list[Cell]] = []
        for n in range(0, len(self.queries), every):
            best = np.argsort(-mean_QK[n], kind="stable")[:STRONGEST]
            rows.append([self.queries[n], ", ".join(f"{self.keys[k]} {brief(float(mean_QK[n, k]))}" for k in best)])
        more = f" (every {every}th of {len(self.queries)})" if every > 1 else ""
        told = [sentence(self.title), self.caption, f"mean of {len(self.names)} maps: {', '.join(self.names)}{more}", ""]
        return [*told, *table(["from", "attends most to"], rows)]

    def figure(self) -> Figure:
        if self.key_spans is None or self.query_spans is None:
            return draw_channels(self.title, self.caption, self.series, self.queries, self.names, self.weights_NQK)
        spans = (self.query_spans, self.key_spans)
        return draw_times(self.title, self.caption, self.series, spans, self.names, self.weights_NQK)

    def as_dict(self) -> dict[str, Any]:
        series, spans = self.series, self.key_spans
        window = {
            "channels": series.channels,
            "channel": series.channel,
            "dates": None if series.dates_M is None else [str(date) for date in series.dates_M],
            "past": series.past_LC.tolist(),
            "forecast": series.forecast_HC.tolist(),
            "interval": None if series.interval is None else [side.tolist() for side in series.interval],
            "actual": None if series.actual_HC is None else series.actual_HC.tolist(),
        }
        named = {"title": self.title, "caption": self.caption, "queries": self.queries, "keys": self.keys}
        at = {"query_spans": self.query_spans, "key_spans": spans}
        return {
            "format": self.FORMAT,
            **named,
            **{name: None if found is None else found.tolist() for name, found in at.items()},
            "series": window,
            "names": self.names,
            "weights": self.weights_NQK.round(6).tolist(),
        }


def series_of(subject: Subject) -> SeriesTokens:
    if subject.series is None:
        raise UserError("this model forecasts no series; give a run of regard train forecast.")
    return subject.series


def series_attention(subject: Subject, choice: Choice) -> SeriesAttention:
    """Return what tokens attend to, by cross-attention where there is one; of one layer each head."""
    series, alone = series_of(subject), choice.layer is not None and choice.head is None
    part = choice.part or ("cross" if "decoder" in subject.sides else "encoder")
    found = attention_weights(subject, Choice(part=part, layer=choice.layer, head=choice.head)).alignment
    weights_LHQK = found.weights
    maps = weights_LHQK[0] if alone else weights_LHQK.mean(1)
    names = tuple(f"head {n}" for n in range(len(maps))) if alone else found.layers
    attention = f"{'decoder' if part == 'cross' else part}.0.{'cross' if part == 'cross' else 'self'}"
    queries, keys = subject.between(attention)
    what = "channels" if keys not in series.spans else "patches" if _wide(series, keys) else "times"
    of = f"each head of {found.layers[0]}" if alone else "the mean over heads, by layer"
    caption = f"What {what} attend to ({part}): {of}."
    return SeriesAttention(
        subject.title,
        caption,
        series,
        found.queries,
        found.keys,
        series.spans.get(queries),
        series.spans.get(keys),
        names,
        np.asarray(maps),
    )


def _wide(series: SeriesTokens, side: str) -> bool:
    begins_ends = series.spans[side]
    return bool((begins_ends[:, 1] - begins_ends[:, 0]).max() > 1)
