"""Forecasting: the next values of time series."""

from regard.data.series_config import SeriesConfig
from regard.runs.task import Task, lazy
from regard.text.config import NoTextConfig

TASK = Task(
    name="forecasting",
    data=SeriesConfig,
    text=NoTextConfig,
    family="patchtst",
    needs=({"forecasting"},),
    objectives=("forecasting",),
    prepare=lazy("regard.tasks.forecasting.prepare:prepare"),
    read_test=lazy("regard.tasks.forecasting.prepare:read_test"),
    open=lazy("regard.tasks.forecasting.predict:Forecasts.of"),
    adopt=lazy("regard.tasks.forecasting.predict:Forecasts.of"),
    adopted_settings=lazy("regard.tasks.forecasting.predict:adopted_settings"),
    heads=("head",),
    exports=("patchtst", "time_series_transformer"),
    export_settings=lazy("regard.tasks.forecasting.predict:export_settings"),
    export_beside=("scaling.json",),
    parts=lazy("regard.tasks.forecasting.prepare:parts"),
    metrics=("mse",),
    lower_is_better=True,
    has_outputs=False,
    draws_scores=True,
    single_texts=False,
    test_hint=" (a table of numbers with a row for each time)",
    prompt="SERIES.csv --output next.csv",
    scored_on="what came next",
)
