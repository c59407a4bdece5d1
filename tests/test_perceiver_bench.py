"""The bench of the Perceiver's cost: both models take a step at every length, and what was recorded holds its bar."""

from __future__ import annotations

import pytest
import torch

from benchmarks import perceiver_cost, render

TINY = perceiver_cost.Scale(lengths=(8, 16, 32), batch=2, width=16, latents=4, layers=1, heads=2, rounds=2)


def test_both_models_are_measured_at_every_length() -> None:
    rows = perceiver_cost.measured(TINY, torch.device("cpu"))
    assert [row["case"] for row in rows] == ["8", "16", "32"]
    found = perceiver_cost.quantities(rows, TINY)
    assert all(len(values) == 3 and min(values) > 0 for kind in found.values() for values in kind.values())
    table = perceiver_cost.growth(found, TINY)
    assert [row[0] for row in table["rows"]] == ["perceiver", "self-attention"]


def test_a_step_reaches_every_parameter_that_learns() -> None:
    for name, model in perceiver_cost.models(TINY, torch.device("cpu")).items():
        gradients = perceiver_cost.steps({name: model}, 2, 8, torch.device("cpu"))[name]()
        assert sum(gradient is not None for gradient in gradients) > 10  # type: ignore[union-attr, attr-defined]


def test_the_recorded_exponents_of_the_perceiver_hold_the_bar() -> None:
    (found,) = [each for each in render.recorded() if each["file"] == "perceiver_cost.cpu"]
    (table,) = found["tables"]
    ours = next(row for row in table["rows"] if row[0] == "perceiver")
    assert all(float(power.removeprefix("M^")) <= perceiver_cost.BAR for power in ours[1:3])
    other = next(row for row in table["rows"] if row[0] == "self-attention")
    assert float(other[1].removeprefix("M^")) == pytest.approx(2, abs=0.25)
