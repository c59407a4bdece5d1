"""Regression: half the squared error summed over texts, however they are laid out, and what validation reports beside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data.batching.labelled import LabelledTexts, SpecialTokens, make_batch
from regard.data.batching.pairs import Ragged
from regard.families.bert import BERTConfig
from regard.families.classifier import Classifier, classifier
from regard.objectives.classification import RegressionLoss

VOCABULARY, ROWS = 61, np.arange(5)
DRAW = np.random.default_rng(0)
LAID = [SpecialTokens(2, 1, 2).around([DRAW.integers(4, VOCABULARY, n).tolist() for n in (k, 3)], 40) for k in (3, 9, 1, 6, 6)]
DATA = LabelledTexts(
    Ragged([ids for ids, _ in LAID]), np.array([second for _, second in LAID]), DRAW.normal(size=5).astype(np.float32)
)


@pytest.fixture(scope="module")
def model() -> Classifier:
    config = BERTConfig(width=32, heads=4, layers=2, feedforward=64, dropout=0.0, maximum_length=24)
    made, draw = classifier(config, VOCABULARY, 1, seed=1), torch.Generator().manual_seed(3)
    for parameter in made.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)
    return made


def alone(model: Classifier) -> list[float]:
    """How far off each text is, a text at a time."""
    batches = [make_batch(DATA, ROWS[n : n + 1]) for n in ROWS]
    return [
        (model(b.ids_BL, b.words, b.segments_BL)[0, 0] - DATA.labels[n]).item()
        for n, b in enumerate(batches)
    ]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_a_batch_loses_what_its_texts_lose_alone(model: Classifier, packed: bool) -> None:
    found = RegressionLoss()(model.train(), make_batch(DATA, ROWS, packed))
    assert found.count == len(ROWS)
    assert found.total.item() == pytest.approx(sum(off**2 for off in alone(model)) / 2, rel=1e-4)
    expected = torch.nn.functional.mse_loss(torch.tensor(alone(model)), torch.zeros(5), reduction="sum") / 2
    assert found.total.item() == pytest.approx(expected.item(), rel=1e-4)


def test_gradients_of_both_layouts_agree(model: Classifier) -> None:
    found = []
    for packed in (False, True):
        model.zero_grad()
        RegressionLoss()(model.train(), make_batch(DATA, ROWS, packed)).total.backward()
        found.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, atol=1e-4, rtol=1e-3, msg=name)


def test_validation_has_the_loss_and_how_far_off(model: Classifier) -> None:
    with torch.no_grad():
        found = RegressionLoss(deviation=2.5)(model.eval(), make_batch(DATA, ROWS))
        off = alone(model)
    assert found.parts["nll"].item() == pytest.approx(sum(o**2 for o in off) / 2, rel=1e-4)
    assert found.parts["off_by"].item() == pytest.approx(2.5 * sum(map(abs, off)), rel=1e-4)
