"""Tagging: the sum of what each word loses, at its first piece only, however windows are laid out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import UserError
from regard.data.batching.pairs import Ragged
from regard.data.batching.tagged import TaggedTexts, make_batch
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.objectives.tagging import TaggingConfig, TaggingLoss

VOCABULARY, TAGS, ROWS = 61, 5, np.arange(4)
DRAW = np.random.default_rng(0)
IDS = [[1, *DRAW.integers(4, VOCABULARY, n).tolist(), 2] for n in (3, 9, 1, 6)]
PLACES = [[1, 3], [1, 2, 6, 9], [1], [2, 3]]  # the last row asks nothing of its first word
DATA = TaggedTexts.of(Ragged(IDS), Ragged(PLACES), DRAW.integers(0, TAGS, 9))


@pytest.fixture(scope="module")
def model() -> BERT:
    config = BERTConfig(width=32, heads=4, layers=2, feedforward=64, dropout=0.0, maximum_length=16)
    made, draw = BERT(config, VOCABULARY, 1, Heads(words=False, tags=TAGS)), torch.Generator().manual_seed(3)
    for parameter in made.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)
    return made


def alone(model: BERT, smoothing: float) -> float:
    """By torch's own loss, a window at a time, with -100 wherever nothing is asked, as transformers has it."""
    total = 0.0
    for n, ids in enumerate(IDS):
        aims = torch.full((len(ids),), -100)
        aims[PLACES[n]] = torch.from_numpy(DATA.tags[n].astype(np.int64))
        logits = model.tags(model.hidden(torch.tensor([ids]), torch.tensor([len(ids)])))[0]
        total += F.cross_entropy(logits, aims, reduction="sum", label_smoothing=smoothing).item()
    return total


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_batch_loses_what_its_words_lose_alone(model: BERT, packed: bool, smoothing: float) -> None:
    found = TaggingLoss(TaggingConfig(smoothing=smoothing))(model.train(), make_batch(DATA, ROWS, packed))
    assert found.count == 9
    assert found.total.item() == pytest.approx(alone(model, smoothing), rel=1e-5)


@pytest.mark.parametrize("packed", [False, True])
def test_micro_batches_add_up(model: BERT, packed: bool) -> None:
    loss = TaggingLoss(TaggingConfig())
    whole = loss(model.train(), make_batch(DATA, ROWS, packed)).total
    parts = [loss(model, make_batch(DATA, rows, packed)).total for rows in (ROWS[:1], ROWS[1:])]
    torch.testing.assert_close(sum(parts), whole, atol=1e-4, rtol=1e-5)


def test_gradients_of_both_layouts_agree(model: BERT) -> None:
    loss, found = TaggingLoss(TaggingConfig()), []
    for packed in (False, True):
        model.train().zero_grad()
        loss(model, make_batch(DATA, ROWS, packed)).total.backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert len(found[0]) > 20
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name], atol=1e-4, rtol=1e-4)


def test_in_scoring_the_loss_is_not_smoothed_and_what_is_right_is_counted(model: BERT) -> None:
    with torch.no_grad():
        found = TaggingLoss(TaggingConfig(smoothing=0.3))(model.eval(), make_batch(DATA, ROWS))
        batch = make_batch(DATA, ROWS)
        said = model.tags(model.hidden(batch.ids_BL, batch.words)).flatten(0, 1)[batch.places_W].argmax(-1)
    assert found.total.item() == pytest.approx(alone(model, 0.0), rel=1e-5)
    assert found.parts["right"].item() == (said == batch.tags_W).sum().item()


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_out_of_range(smoothing: float) -> None:
    with pytest.raises(UserError, match="must be at least 0 and less than 1"):
        TaggingConfig(smoothing=smoothing)
