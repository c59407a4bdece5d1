"""Attention over time by the commands: of a table's last window, of a channel of a series, and what is refused."""

from __future__ import annotations

import json

import numpy as np

from regard.tasks.forecasting.inspect import last_row, table_subject
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.tasks.forecasting.test_predict import written
from tests.tasks.forecasting.tiny_series import trained


def test_lens_draws_attention_below_the_series(tmp_path):
    table, out = written(tmp_path / "a.csv"), tmp_path / "a.png"
    result = regard("lens", trained(), table, "--out", out)
    assert result.code == 0, result.err
    assert "What patches attend to" in result.out
    assert out.read_bytes().startswith(b"\x89PNG")
    assert regard("lens", trained(), table, "--show", "weights", "--target", "b", "--out", tmp_path / "b.json").code == 0
    found = json.loads((tmp_path / "b.json").read_text())
    assert found["series"]["channel"] == 1
    weights = np.array(found["weights"])
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-4)
    assert regard("lens", trained(), table, "--show", "heads").code == 0


def test_the_window_is_the_last_that_can_be_read(tmp_path):
    answers = open_run(trained("forecaster"), "cpu")
    subject = table_subject(answers, str(written(tmp_path / "a.csv", rows=50, kind="events")), None)
    assert subject.series.actual_HC is not None  # the announced events end with the table
    assert str(subject.series.dates_M[-1]) == "2021-01-03T01:00:00"
    subject = table_subject(answers, str(written(tmp_path / "b.csv", rows=50, ahead=6, kind="events")), "c")
    assert subject.series.actual_HC is None
    assert subject.series.channel == 2
    forecast = answers.next(str(tmp_path / "b.csv"))[0][0].values_HC
    np.testing.assert_allclose(subject.series.forecast_HC, forecast, rtol=1e-5)
    assert last_row(open_run(trained(), "cpu"), answers.next(str(tmp_path / "b.csv"))[0][0].series) == 50


def test_what_cannot_be_drawn_is_refused(tmp_path):
    run, table = trained(), written(tmp_path / "a.csv")
    refused(regard("lens", run, table, "--show", "gradients"), "--show gradients is for models that are scored on words")
    refused(regard("lens", run, table, "--show", "weights", "--target", "z"), "forecasts no channel 'z'")
    refused(regard("lens", run, table, "--show", "weights", "--target", "x/a"), "has no series 'x'")
    refused(regard("lens", run, table, "--part", "cross"), "--part cross: this model has none")
    refused(regard("lens", trained("dlinear"), table), "its forecast is a linear map of the window")
    refused(regard("lens", run, tmp_path / "no.csv"), "no.csv")
