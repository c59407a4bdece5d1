"""Every objective that a recipe can name is in the module of its name, or in one given here, and refuses impossible settings."""

from __future__ import annotations

import dataclasses
import importlib
import math

import pytest
import torch

from regard.core.errors import UserError
from regard.objectives import OBJECTIVES
from regard.objectives.base import Loss

ELSEWHERE = {"skipgram": "negative_sampling", "cbow": "negative_sampling"}  # modules that have two objectives
ELSEWHERE |= {"regression": "classification", "bidirectional_lm": "causal_lm", "image_distillation": "image_classification"}


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_an_objective_has_the_name_of_its_module(name: str) -> None:
    config = OBJECTIVES[name]
    assert {field.name: field.default for field in dataclasses.fields(config)}["name"] == name
    if name != "vectors":  # which nothing trains
        assert config.__module__ == f"regard.objectives.{ELSEWHERE.get(name, name)}"
        importlib.import_module(config.__module__)


def test_losses_of_micro_batches_add_up() -> None:
    """The mean of a batch is the sum of the parts over the sum of the counts, whatever their sizes."""
    each = torch.tensor([1.0, 2.0, 3.0, 10.0])
    parts = [Loss(each[:1].sum(), {}, 1), Loss(each[1:].sum(), {}, 3)]
    assert sum(part.total for part in parts) / sum(part.count for part in parts) == each.mean()
    with pytest.raises(dataclasses.FrozenInstanceError):
        parts[0].count = 2  # type: ignore[misc]


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.nan])
@pytest.mark.parametrize("name", ["seq2seq", "classification", "tagging", "captioning"])
def test_smoothing_is_checked_by_all_that_have_it(name: str, smoothing: float) -> None:
    assert OBJECTIVES[name](smoothing=0.3).smoothing == 0.3
    assert OBJECTIVES[name](smoothing=0.0).smoothing == 0.0
    with pytest.raises(UserError, match=r"objective\.smoothing"):
        OBJECTIVES[name](smoothing=smoothing)
