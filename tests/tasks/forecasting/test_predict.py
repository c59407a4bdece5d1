"""The next values of a table: as a table, as JSON, as a picture, with intervals and with what is known in advance."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from regard.data.builtin.series import draw_series
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.tasks.forecasting.tiny_series import train, trained


def written(path: Path, rows: int = 40, ahead: int = 0, kind: str = "seasons") -> Path:
    drawn = draw_series(f"builtin:series/{kind}")
    lines = ["date,a,b,c" + ",event" * (kind == "events")]
    for t in range(rows + ahead):
        cells = [f"{x:.6f}" if t < rows else "" for x in drawn.values_TC[t]]
        event = [f"{drawn.event_T[t]:.0f}"] if drawn.event_T is not None else []
        lines.append(",".join([str(drawn.dates[t]).replace("T", " "), *cells, *event]))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_next_values_come_as_a_table_with_intervals(tmp_path):
    table, out = written(tmp_path / "a.csv"), tmp_path / "next.csv"
    assert regard("predict", trained(), table, "--output", out).code == 0
    rows = list(csv.DictReader(out.open()))
    assert [row["date"] for row in rows] == [f"2021-01-02 {hour}:00:00" for hour in range(16, 22)]
    assert all(float(row["a 0.1"]) <= float(row["a"]) <= float(row["a 0.9"]) for row in rows)
    printed = regard("predict", trained(), table)
    assert printed.out == out.read_text()
    lines = [json.loads(line) for line in regard("predict", trained(), table, "--json").out.splitlines()]
    assert [line["date"] for line in lines] == [row["date"] for row in rows]
    np.testing.assert_allclose([line["c"] for line in lines], [float(row["c"]) for row in rows], rtol=1e-5)


def test_a_forecast_is_the_models_own_in_units(tmp_path):
    table, answers = written(tmp_path / "a.csv"), open_run(trained(), "cpu")
    past = draw_series("builtin:series/seasons").values_TC[16:40].round(6)
    scaling = answers.scaling
    scaled = (past - np.array(scaling.mean)) / np.array(scaling.deviation)
    with torch.no_grad():
        found = answers.model(torch.from_numpy(scaled.astype(np.float32))[None])[0]
    expected = found[..., 1].numpy() * np.array(scaling.deviation) + np.array(scaling.mean)
    (one,), _ = answers.next(str(table))
    ordered = np.sort(found.numpy(), -1)[..., 1] * np.array(scaling.deviation) + np.array(scaling.mean)
    assert np.allclose(one.values_HC, expected, atol=1e-4) or np.allclose(one.values_HC, ordered, atol=1e-4)


def test_a_distribution_has_every_quantile(tmp_path):
    run = train(tmp_path / "run", "dlinear", "objective.loss=student_t")
    table = written(tmp_path / "a.csv")
    rows = list(csv.DictReader(StringIO(regard("predict", run, table).out)))
    assert [*rows[0]] == ["date", "a", "a 0.1", "a 0.9", "b", "b 0.1", "b 0.9", "c", "c 0.1", "c 0.9"]
    wider = list(csv.DictReader(StringIO(regard("predict", run, table, "objective.quantiles=0.05,0.5,0.8").out)))
    assert [row["a"] for row in wider] == [row["a"] for row in rows]
    (one,), _ = open_run(run, "cpu").next(str(table))
    with torch.no_grad():
        answers = open_run(run, "cpu")
        scaled, _ = answers.scaling.scaled(one.series)
        df, loc, scale = answers.model(torch.from_numpy(scaled[-24:])[None])[0].double().unbind(-1)
    for q, name in ((0.05, "a 0.05"), (0.5, "a"), (0.8, "a 0.8")):
        expected = answers.scaling.units(stats.t(df, loc, scale).ppf(q))[:, 0]
        np.testing.assert_allclose([float(row[name]) for row in wider], expected, rtol=1e-4)
    refused(regard("predict", run, table, "objective.quantiles=0.05,0.95"), "0.5")
    refused(regard("predict", run, table, "objective.loss=normal"), "objective.loss=normal (was student_t) cannot be set")


def test_counts_are_forecast_as_counts(tmp_path):
    counts = np.random.default_rng(0).poisson(4 + 3 * np.sin(np.arange(400) / 4)[:, None], (400, 3))
    table = tmp_path / "counts.csv"
    np.savetxt(table, counts, fmt="%d", delimiter=",", header="a,b,c", comments="")
    settings = [f"data.train={table}", "objective.loss=negative_binomial", "data.scaling=none", "model.normalisation=mean"]
    run = train(tmp_path / "run", "dlinear", *settings)
    for row in csv.DictReader(StringIO(regard("predict", run, table).out)):
        assert all(float(cell).is_integer() and float(cell) >= 0 for cell in row.values())
    scored = json.loads(regard("evaluate", run, "--json").out)
    assert {"coverage", "crps", "wql"} <= {*scored}
    assert "not scaled" in regard("evaluate", run).out


def long_table(path: Path, kind: str = "village") -> Path:
    drawn, lines = draw_series("builtin:series/seasons"), ["shop,date,y,kind,size"]
    for shop, name, size in (("x", "town", 3), ("z", kind, 8)):
        lines += [f"{shop},{str(drawn.dates[t]).replace('T', ' ')},{drawn.values_TC[t, 0]:.5f},{name},{size}" for t in range(200)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("family", ["forecaster", "itransformer"])
def test_static_columns_and_the_calendar_are_read(tmp_path, family):
    table, recipe = long_table(tmp_path / "a.csv"), "forecaster"
    settings = [f"data.train={table}", "data.series=shop", "data.static=kind,size", "data.calendar=hour,weekday", "data.known="]
    run = train(
        tmp_path / "run", recipe, *settings, f"model.family={family}", *["model.position=none"] * (family == "itransformer")
    )
    rows = list(csv.DictReader(StringIO(regard("predict", run, table).out)))
    assert [(row["shop"], row["date"]) for row in rows][5:7] == [("x", "2021-01-09 13:00:00"), ("z", "2021-01-09 08:00:00")]
    other = list(csv.DictReader(StringIO(regard("predict", run, long_table(tmp_path / "b.csv", "town")).out)))
    assert [row["y"] for row in rows[:6]] == [row["y"] for row in other[:6]]
    assert [row["y"] for row in rows[6:]] != [row["y"] for row in other[6:]]
    refused(regard("predict", run, long_table(tmp_path / "c.csv", "city")), "kind of series 'z' is 'city'")
    assert json.loads(regard("evaluate", run, "--json").out)["windows"] == 2 * (40 - 5)
    assert regard("explain", run).code == 0


def test_a_picture_shows_each_channel(tmp_path):
    out = tmp_path / "next.png"
    assert regard("predict", trained(), written(tmp_path / "a.csv"), "--output", out).code == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert regard("predict", trained("dlinear"), "--output", tmp_path / "own.png").code == 0


def test_what_is_known_in_advance_is_read(tmp_path):
    run, table = trained("forecaster"), written(tmp_path / "a.csv", ahead=6, kind="events")
    before = regard("predict", run, table).out
    assert len(before.splitlines()) == 7
    table.write_text(table.read_text().replace(",,,0", ",,,1"))
    assert regard("predict", run, table).out != before
    short = written(tmp_path / "b.csv", ahead=5, kind="events")
    refused(regard("predict", run, short), "for 5 times after its last values")


def test_what_cannot_be_forecast_is_refused(tmp_path):
    run, table = trained(), written(tmp_path / "a.csv")
    refused(regard("predict", run, written(tmp_path / "b.csv", rows=20)), "has 20 rows of values", "model.lookback=24")
    refused(regard("predict", run, table, table), "2 tables were given")
    refused(regard("predict", run, table, "--output", tmp_path / "next.xls"), "written as .csv, .jsonl or .png")
    (tmp_path / "c.csv").write_text("x,y\n" + "1,2\n" * 30)
    refused(regard("predict", run, tmp_path / "c.csv"), "has no column 'a'")
    refused(regard("predict", run, tmp_path / "nothing.csv"), "nothing.csv")
