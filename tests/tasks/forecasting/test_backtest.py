"""Backtests show the model's own forecasts of the end of the test, in units, and errors by step that average to the scores."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.runs.folder import Run
from regard.tasks.forecasting.backtest import rolling, steps_of
from regard.tasks.forecasting.prepare import read_test
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.tasks.forecasting.tiny_series import trained


@pytest.mark.parametrize("model", ["patchtst", "dlinear"])
def test_forecasts_are_those_of_the_model(model):
    run, answers = trained(model), open_run(trained(model), "cpu")
    test = read_test(Run.open(run).recipe)
    found = rolling(answers, test)
    assert [one.name for one in found] == ["a", "b", "c"]
    values_TC = test.table.series[0].values_TC[:400]
    scaled, _ = answers.scaling.scaled(test.table.series[0])
    one = found[1]
    assert one.values_T.tolist() == values_TC[-len(one.values_T) :, 1].tolist()
    assert len(one.segments) == (400 - 320) // 6
    for segment in (one.segments[0], one.segments[-1]):
        begin = 400 - len(one.values_T) + segment.begin
        with torch.no_grad():
            forecast = answers.model(torch.from_numpy(scaled[begin - 24 : begin])[None])[0]
        middle = forecast.sort(-1).values[..., 1] if model == "patchtst" else forecast
        np.testing.assert_allclose(segment.values_H, answers.scaling.units(middle.numpy())[:, 1], rtol=1e-4)
        assert (segment.interval is None) == (model == "dlinear")
    assert one.segments[-1].begin + 6 == len(one.values_T)


def test_errors_by_step_average_to_the_scores():
    run, answers = trained(), open_run(trained(), "cpu")
    scores = answers.evaluate(read_test(Run.open(run).recipe)).scores
    steps = steps_of(scores)
    assert {name: np.mean(errors) for name, errors in steps.errors.items()} == pytest.approx(
        {name: row["mae"] for name, row in scores.table().items()}
    )
    assert steps.coverage_H.mean() == pytest.approx(scores.as_dict()["coverage"])


def test_a_backtest_is_drawn_by_evaluate(tmp_path):
    out = tmp_path / "backtest.png"
    assert json.loads(regard("evaluate", trained(), "--output", out, "--json").out)["windows"] == 75
    assert out.read_bytes().startswith(b"\x89PNG")
    refused(regard("evaluate", trained(), "--output", tmp_path / "backtest.txt"), "are drawn as .png")
