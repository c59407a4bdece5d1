"""Training forecasters by the commands of any task: described, explained, stopped and continued, split by time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.data.batching.series import SCALING, Scaling
from regard.data.builtin.series import draw_series
from regard.runs.recipe import load_recipe
from regard.tasks.forecasting.prepare import prepare, read_test
from tests.command import regard
from tests.tasks.forecasting.tiny_series import MODELS, SMALL, train, trained


def weights(run: Path, step: int = 6) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:08d}" / "model.safetensors")


@pytest.mark.parametrize("model", ["forecaster", "patchtst", "dlinear"])
def test_a_run_is_scored_described_and_explained(model):
    run = trained(model)
    scored = json.loads(regard("evaluate", run, "--json").out)
    assert scored["windows"] == 80 - 6 + 1  # a fifth of 400 rows
    assert {"naive", "seasonal", "linear", "nlinear"} == {*scored["beside"]}
    assert scored["best_possible_mse"] < scored["mse"]
    assert ("coverage" in scored) == (model == "patchtst")
    assert "windows to train on" in (run / "README.md").read_text()
    explained = regard("explain", run)
    assert explained.code == 0, explained.err
    parameters = sum(t.numel() for name, t in weights(run).items() if not name.endswith(("mean_D", "variance_D")))
    assert f"{parameters:,}" in explained.out


def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path):
    """Dropout, batch normalisation's averages and the order of windows included."""
    whole = train(tmp_path / "whole")
    stopped = train(tmp_path / "stopped", "patchtst", "train.steps=3")
    train(stopped)
    one, other = weights(whole), weights(stopped)
    assert one.keys() == other.keys()
    assert any(name.endswith("variance_D") for name in one)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["head.weight"], weights(whole, 3)["head.weight"])


def test_a_dry_run_writes_nothing(tmp_path):
    result = regard("train", *MODELS["forecaster"], *SMALL, "--dry-run", "--out", tmp_path / "run", "--device", "cpu")
    assert result.code == 0, result.err
    assert not (tmp_path / "run").exists()


def test_training_sees_nothing_of_what_comes_later(tmp_path):
    """Other rows after training change neither the scale nor a weight, as long as validation does not choose."""
    drawn, runs = draw_series("builtin:series/seasons").values_TC[:400], []
    for name, later in (("one", 0.0), ("other", 1000.0)):
        values = drawn.copy()
        values[280:] += later
        table = tmp_path / f"{name}.csv"
        np.savetxt(table, values, delimiter=",", header="a,b,c", comments="")
        runs.append(train(tmp_path / name, "patchtst", f"data.train={table}", "data.season=24"))
    one, other = map(weights, runs)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (runs[0] / SCALING).read_text() == (runs[1] / SCALING).read_text()


def test_a_table_of_its_own_may_be_the_test(tmp_path):
    drawn = draw_series("builtin:series/seasons").values_TC[:60]
    np.savetxt(tmp_path / "new.csv", drawn, delimiter=",", header="a,b,c", comments="")
    run = trained("patchtst")
    scored = json.loads(regard("evaluate", run, f"data.test={tmp_path / 'new.csv'}", "--json").out)
    assert scored["windows"] == 60 - 30 + 1
    assert "best_possible_mse" not in scored


def test_splits_of_a_recipe_are_one_after_the_other():
    recipe = load_recipe("forecast-patchtst", [*MODELS["patchtst"][1:], *SMALL])
    said = list[str]()
    found, test = prepare(recipe, None, said.append), read_test(recipe)
    assert found.train.starts.max() + 30 == 280
    assert found.valid.starts.min() + 24 == 280
    assert found.valid.starts.max() + 30 == 320
    assert test.spans == ((320, 400),)
    assert found.scaling == Scaling.of(test.table, [280], 24)
    assert "test: 75 windows" in said


def test_a_changed_seal_is_seen(tmp_path):
    run = train(tmp_path / "run")
    path = run / SCALING
    path.write_text(path.read_text().replace('"a"', '"z"'))
    result = regard("evaluate", run)
    assert result.code == 2
    assert "do not fit its scaling.json" in result.err


def test_training_begins_with_the_weights_of_a_run(tmp_path):
    start, more = trained(), [f"task.init_from={trained()}", "train.learning_rate=1e-12", "train.steps=1"]
    same = weights(train(tmp_path / "same", "patchtst", *more), 1)
    learned = [name for name in same if not name.endswith("_D")]
    assert all(torch.allclose(same[name], weights(start)[name], atol=1e-6) for name in learned)
    result = regard("train", *MODELS["patchtst"], *SMALL, *more, "model.horizon=9", "--out", tmp_path / "other")
    assert result.code == 2
    assert "model.horizon=9 cannot be set with task.init_from" in result.err


def test_a_constant_channel_is_told_and_forecast_as_it_is(tmp_path):
    values = draw_series("builtin:series/seasons").values_TC[:400].copy()
    values[:, 1] = 7.5
    np.savetxt(tmp_path / "t.csv", values, delimiter=",", header="a,b,c", comments="")
    recipe = load_recipe("forecast-patchtst", [*MODELS["patchtst"][1:], *SMALL, f"data.train={tmp_path / 't.csv'}"])
    said = list[str]()
    found = prepare(recipe, None, said.append)
    assert "  b has one value in all rows; it is forecast all the same" in said
    assert found.scaling.deviation[1] == 1.0
    assert found.scaling.season_error[1] == 0.0
    window = found.train.batch(np.arange(2)).window()
    assert window.past_BLC.isfinite().all()
    model = found.build(1).eval()
    restored = found.scaling.units(model(window.past_BLC)[..., 1].detach().numpy())[..., 1]
    np.testing.assert_allclose(restored, 7.5, atol=0.05)
