"""Scores of a model that restores text, and what it writes."""

from __future__ import annotations

import math

import pytest

from regard.tasks.masked_lm.masking import MaskedTest
from regard.tasks.registry import open_run
from tests.tasks.tiny_noise import data, trained


@pytest.mark.parametrize("noise", ["span_corruption", "permutation+infilling"])
def test_a_trained_model_predicts_its_targets_far_better_than_chance(noise: str) -> None:
    scores = open_run(trained(noise), "cpu").evaluate(MaskedTest((str(data()),), "text")).as_dict()
    assert scores["nll"] < 1.6 < math.log(180) / 3
    assert scores["perplexity"] == pytest.approx(math.exp(scores["nll"]))
    assert scores["noise"] == noise
