"""`/v1/forecast`: the next values of a series, with quantiles where the model has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from regard.core.errors import UserError, nearest
from regard.data.sources.series import Series, SeriesTable
from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import Body, Model, Reply

if TYPE_CHECKING:
    from regard.tasks.forecasting.predict import Forecasts

MOST_TIMES, MOST_COLUMNS = 100_000, 10_000
WHERE = "the request"

Value = Annotated[float, Field(allow_inf_nan=False, ge=-1e30, le=1e30)]
Values = Annotated[list[Value], Field(min_length=1, max_length=MOST_TIMES)]
Columns = Annotated[dict[str, Values], Field(max_length=MOST_COLUMNS)]


class ForecastBody(Body):
    model: Model = None
    values: Columns = Field(min_length=1, description="the past of every channel by its name, the last value last")
    known: Columns | None = Field(None, description="what is known in advance: the past and the times to forecast")


class ForecastReply(Reply):
    model: str
    values: dict[str, list[float]] = Field(description="the next values of every channel")
    quantiles: dict[str, dict[str, list[float]]] | None = Field(None, description="by channel and quantile, such as 0.1")


def routes(predictor: Forecasts) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/forecast",
            title="The next values of a series",
            body=ForecastBody,
            answer=ForecastReply,
            example=example(predictor),
            inputs=lambda predictor, body: [table_of(predictor, body)],
            batch=forecast,
            length=lambda table: len(table.series[0]),
            outputs=lambda predictor, body, found: found[0],
        )
    ]


def table_of(predictor: Forecasts, body: ForecastBody) -> SeriesTable:
    scaling = predictor.scaling
    values_TC = columns(body.values, scaling.channels, "values")
    known = body.known or {}
    if known and not scaling.known:
        raise UserError("this run was trained without values that are known in advance; leave 'known' out.")
    known_TE = columns(known, scaling.known, "known") if scaling.known else np.zeros((len(values_TC), 0))
    if scaling.known and len(known_TE) != (wanted := len(values_TC) + predictor.recipe.model.horizon):
        raise UserError(
            f"'known' has {len(known_TE):,} times, and {wanted:,} are needed: the {len(values_TC):,} of 'values' and the "
            f"{predictor.recipe.model.horizon:,} to forecast."
        )
    if ahead := len(known_TE) - len(values_TC):
        values_TC = np.concatenate([values_TC, np.full((ahead, values_TC.shape[1]), np.nan)])
    return SeriesTable(scaling.channels, scaling.known, (Series("", values_TC, known_TE, None),))


def columns(given: dict[str, list[float]], names: Sequence[str], field: str) -> np.ndarray:
    """Return values_TC of the channels in the order of the model."""
    if extra := next((name for name in given if name not in names), None):
        raise UserError(f"'{field}' has {extra[:40]!r}, which this run does not know{nearest(extra, names)}")
    if missing := next((name for name in names if name not in given), None):
        raise UserError(f"'{field}' has no {missing!r}; this run needs {', '.join(names[:8])}.")
    if len(lengths := {len(given[name]) for name in names}) > 1:
        raise UserError(f"'{field}' has lists of {min(lengths):,} and of {max(lengths):,} values; give each channel as many.")
    return np.array([given[name] for name in names], np.float64).T


def forecast(predictor: Forecasts, tables: Sequence[SeriesTable]) -> list[dict[str, Any]]:
    return [answered(predictor, table) for table in tables]


def answered(predictor: Forecasts, table: SeriesTable) -> dict[str, Any]:
    (found,) = predictor.next_of(table, WHERE)
    values = {name: found.values_HC[:, c].tolist() for c, name in enumerate(table.channels)}
    if found.quantiles_HCQ is None:
        return {"values": values}
    quantiles = {
        name: {f"{q:g}": found.quantiles_HCQ[:, c, n].tolist() for n, q in enumerate(predictor.quantiles)}
        for c, name in enumerate(table.channels)
    }
    return {"values": values, "quantiles": quantiles}


def example(predictor: Forecasts) -> dict[str, Any]:
    """Return a short wave for every channel."""
    c, scaling = predictor.recipe.model, predictor.scaling
    mean = dict(zip((*scaling.channels, *scaling.known), scaling.mean))
    values = {name: [round(mean[name] + t % 4, 3) for t in range(c.lookback)] for name in scaling.channels}
    known = {name: [round(mean[name], 3)] * (c.lookback + c.horizon) for name in scaling.known}
    return {"values": values, **({"known": known} if known else {})}
