"""What people may get wrong about time series and their models: one sentence each, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import contents, refused, regard

RECIPE = '[task]\nname = "forecasting"\n[data]\ntrain = ["t.csv"]\n[model]\nfamily = "{family}"\nlookback = 6\nhorizon = 3\n'
RECIPE += "[train]\nsteps = 2\n"
ROWS = "".join(f"2024-01-{day:02d},{day},{day % 7}\n" for day in range(1, 32))
COUNTS = ["objective.loss=negative_binomial", "data.scaling=none"]
GOOD = "date,x,y\n" + ROWS
TABLES: dict[str, tuple[str | bytes, list[str], str]] = {
    "empty": ("", [], "is empty"),
    "white": ("\n\n \n", [], "is empty"),
    "header alone": ("date,x\n", [], "has 1 line"),
    "one row": ("date,x\n2024-01-01,1\n", [], "has 1 row"),
    "no header": ("1,2\n3,4\n5,6\n", [], "begins with numbers"),
    "two names alike": ("x,x\n1,2\n3,4\n", [], "two columns called 'x'"),
    "ragged": ("x,y\n1,2\n3\n", [], "line 3: 1 cells"),
    "decimal commas without quotes": ("x,y\n1,5,2,5\n", [], "numbers with a comma in quotes"),
    "decimal commas": ("x;y\n1,5;2\n3,5;4\n", [], "set data.decimal=comma"),
    "words": ("date,x,city\n2024-01-01,1,Paris\n2024-01-02,2,Rome\n", [], "data.series=city"),
    "no number": (GOOD.replace("2024-01-05,5", "2024-01-05,five"), [], "line 6: x is 'five'"),
    "infinite": (GOOD.replace("2024-01-05,5", "2024-01-05,inf"), [], "line 6: x is infinite"),
    "empty cells": (GOOD.replace("2024-01-05,5", "2024-01-05,"), [], "x is empty 1 times, first at 2024-01-05"),
    "empty cells without dates": ("x\n1\nNA\n3\n", [], "first in row 2"),
    "a run of NaN": (GOOD.replace(",5\n", ",nan\n"), [], "data.missing=interpolate"),
    "empty channel": ("x,y\n1,\n2,\n3,\n", ["data.missing=last"], "y is empty in every row"),
    "no dates": (GOOD.replace("2024-01-05", "fifth"), [], "'fifth', which is no date"),
    "other dates": (GOOD.replace("2024-01-05", "01/05/2024"), [], "which is no date such as"),
    "impossible date": (GOOD.replace("2024-01-05", "2024-02-30"), [], "which is no date"),
    "time zones in some": (GOOD.replace("2024-01-05,", "2024-01-05T00:00:00+02:00,"), [], "have a time zone"),
    "two rows of one time": (GOOD.replace("2024-01-05", "2024-01-04"), [], "two rows of 2024-01-04"),
    "several series": ("date,x\n" + "2024-01-01,1\n2024-01-01,2\n", [], "data.series=COLUMN"),
    "left out": (GOOD.replace("2024-01-05,5,5\n", ""), [], "leaves out 1 times, the first after 2024-01-04"),
    "irregular": ("date,x\n2024-01-01,1\n2024-01-02,2\n2024-01-03,2\n2024-01-03 05:00,3\n", [], "no regular steps"),
    "mostly left out": (
        "date,x\n2024-01-01,1\n2024-01-02,2\n2024-01-03,2\n2034-01-03,3\n",
        ["data.missing=last"],
        "give a longer step",
    ),
    "too short": ("x\n1\n2\n3\n4\n5\n6\n7\n8\n", [], "model.lookback=6 + model.horizon=3"),
    "no validation": ("x\n" + "1\n2\n" * 8, [], "the valid part has 8 rows"),
    "UTF-16": (GOOD.encode("utf-16"), [], "is UTF-16"),
    "no text": (b"x,y\n\0\0\n1,2\n", [], "no text"),
    "negative counts": (GOOD.replace("2024-01-05,5,", "2024-01-05,-5,"), COUNTS, "x is -5 in row 5"),
    "counts with a point": (GOOD.replace("2024-01-05,5,", "2024-01-05,5.5,"), COUNTS, "x is 5.5 in row 5"),
    "dates alone": ("date\n2024-01-01\n2024-01-02\n", [], "no column of numbers"),
    "long without its series": ("id,date,x\na,2024-01-01,1\nb,2024-01-01,2\n", [], "data.series=id"),
}
SETTINGS: dict[str, tuple[list[str], str]] = {
    "no table": (["data.train=other.csv"], "other.csv"),
    "two tables": (["data.train=t.csv,t.csv"], "2 tables were given"),
    "empty train": (["data.train="], "data.train is empty"),
    "a spreadsheet": (["data.train=t.xlsx"], "read from CSV and TSV files"),
    "parquet that is not there": (["data.train=t.parquet"], "There is no file t.parquet"),
    "parquet that is none": (["data.train=u.parquet"], "cannot be read as parquet"),
    "a calendar that is not read": (["data.calendar=weekday"], "reads the past of the channels alone"),
    "an unknown calendar": (["data.calendar=week"], "is not a choice"),
    "a calendar that is named twice": (["data.calendar=hour,hour"], "names one of them twice"),
    "a calendar without dates": (
        ["data.calendar=hour", "data.time=none", "model.family=itransformer"],
        "is computed from dates, and t.csv is read without any",
    ),
    "static without series": (["data.static=y"], "without data.series there is one"),
    "static that is not read": (["data.static=y", "data.series=x"], "is constant in a series"),
    "static that is forecast": (["data.static=y", "data.series=x", "data.columns=y"], "is in data.static and in data.columns"),
    "unknown static": (["data.static=z", "data.series=x", "model.family=forecaster"], "which data.static names"),
    "static of a built-in series": (
        ["data.train=builtin:series/seasons", "data.series=a", "data.static=b", "model.family=forecaster"],
        "is one series",
    ),
    "unknown built-in": (["data.train=builtin:series/weather"], "builtin:series/"),
    "unknown column of it": (
        ["data.train=builtin:series/seasons", "data.known=event", "model.family=itransformer"],
        "no column 'event'",
    ),
    "unknown channel": (["data.columns=x,z"], "has no column 'z', which data.columns names"),
    "unknown covariate": (["data.known=z", "model.family=itransformer"], "which data.known names"),
    "unknown time": (["data.time=when"], "which data.time names"),
    "unknown series": (["data.series=shop"], "which data.series names"),
    "both known and forecast": (["data.columns=x", "data.known=x"], "drop one"),
    "covariates that are not read": (["data.known=y"], "reads the past of the channels alone"),
    "all held out": (["data.valid_fraction=0.5", "data.test_fraction=0.5"], "leave nothing to train on"),
    "nothing to validate": (["data.valid_fraction=0"], "leaves nothing to validate"),
    "months of ETT": (["data.split=ett-hours"], "needs 8,640 rows"),
    "months and a test": (["data.split=ett-hours", "data.test=t.csv"], "takes all parts from data.train"),
    "unknown split": (["data.split=months"], "is not a choice"),
    "look-back of nothing": (["model.lookback=1"], "must be at least 2"),
    "horizon of nothing": (["model.horizon=0"], "must be at least 1"),
    "look-back longer than the data": (["model.lookback=500"], "model.lookback=500"),
    "season of nothing": (["data.season=0"], "must be at least 1"),
    "a patch too long": (["model.family=patchtst"], "model.patch=16 is longer than model.lookback=6"),
    "quantiles without their loss": (["objective.quantiles=0.1,0.5"], "belong together"),
    "quantiles of one number": (["objective.loss=mae", "objective.quantiles=0.1,0.5"], "belong together"),
    "a distribution without its median": (["objective.loss=normal", "objective.quantiles=0.1,0.9"], "must rise and have 0.5"),
    "an unknown distribution": (["objective.loss=gamma"], "is not a choice"),
    "counts that are scaled": (["objective.loss=negative_binomial"], "set data.scaling=none"),
    "counts that are shifted": (
        ["objective.loss=negative_binomial", "data.scaling=none", "model.normalisation=last"],
        "set model.normalisation=mean",
    ),
    "an unknown scaling": (["data.scaling=minmax"], "is not a choice"),
    "layers that run twice": (
        ["model.family=patchtst", "model.patch=4", "train.activation_checkpointing=true"],
        "runs layers twice",
    ),
    "a family of text": (["model.family=gpt"], "is not known for task.name=forecasting"),
    "a text setting": (["text.size=100"], "text.size"),
    "another test without the channels": (["data.test=u.csv"], "u.csv"),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.toml").write_text(RECIPE.format(family="dlinear"))


def train(*settings: str):
    return regard("train", "r.toml", *settings, "--out", "run", "--device", "cpu")


@pytest.mark.parametrize("name", TABLES)
def test_wrong_tables(tmp_path, name):
    content, settings, told = TABLES[name]
    (tmp_path / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = contents(tmp_path)
    refused(train(*settings), told)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", SETTINGS)
def test_wrong_settings(tmp_path, name):
    settings, told = SETTINGS[name]
    (tmp_path / "t.csv").write_text(GOOD)
    (tmp_path / "u.parquet").write_text(GOOD)
    before = contents(tmp_path)
    refused(train(*settings), told)
    assert contents(tmp_path) == before
