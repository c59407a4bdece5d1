"""The span loss: equal to transformers' where nothing is ruled out, to a softmax by hand where something is, packed as padded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.core.packing import Packing
from regard.data.batching.qa import Layout, SpanBatch, Windows, make_batch, windows
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.objectives.span import SpanConfig, SpanLoss, span_loss, span_scores
from regard.text.offsets import Placed
from tests.families.bert_folder import opened, theirs
from tests.families.public_folder import shaken

SMALL = BERTConfig(width=24, heads=3, layers=2, feedforward=40, maximum_length=32, dropout=0.0)


def model(config: BERTConfig = SMALL) -> BERT:
    return shaken(BERT(config, 60, heads=Heads(words=False, span=True)), 0.3)


def data() -> Windows:
    draw = np.random.default_rng(1)
    contexts = [draw.integers(4, 60, n).tolist() for n in (3, 9, 20, 30)]
    placed = [Placed(ids, np.arange(len(ids)) * 2, np.arange(len(ids)) * 2 + 1) for ids in contexts]
    answers = [(0, 0), (2, 5), None, (17, 19)]
    return windows(Layout(1, (2,), 2, 18, 5, 6), [draw.integers(4, 60, 4).tolist() for _ in contexts], placed, answers)


def test_the_loss_is_a_softmax_over_what_can_be_chosen() -> None:
    found, windows_ = model(), data()
    batch = make_batch(windows_, np.arange(len(windows_)))
    with torch.no_grad():
        loss = SpanLoss(SpanConfig())(found, batch)
        logits = found.span(found.hidden(batch.ids_BL, batch.words, batch.segments_BL))
    expected = 0.0
    for n in range(len(windows_)):
        length, begin = int(windows_.ids.lengths[n]), int(windows_.contexts[n])
        allowed = [0, *range(begin, length - 1)]
        for side in (0, 1):
            target = allowed.index(int(windows_.targets[n, side]))
            expected -= logits[n, allowed, side].log_softmax(0)[target].item() / 2
    assert loss.count == len(windows_)
    assert loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert loss.parts["nll"].item() == loss.total.item()


def test_where_all_can_be_chosen_it_is_that_of_transformers() -> None:
    peer = theirs("bert", "BertForQuestionAnswering")
    ids_BL = torch.randint(4, 300, (5, 13), generator=torch.Generator().manual_seed(0))
    segments_BL = (torch.arange(13) > 5).long().expand(5, 13)
    targets_N2 = torch.tensor([[1, 3], [0, 0], [12, 12], [6, 9], [5, 11]])
    with torch.no_grad():
        expected = peer(
            input_ids=ids_BL, token_type_ids=segments_BL, start_positions=targets_N2[:, 0], end_positions=targets_N2[:, 1]
        )
        batch = SpanBatch(ids_BL, torch.full((5,), 13), segments_BL, torch.ones(5, 13, dtype=torch.bool), targets_N2, 5)
        ours = opened(peer)
        scores = span_scores(ours, batch)
        loss = SpanLoss(SpanConfig())(ours, batch)
    torch.testing.assert_close(scores[..., 0], expected.start_logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(scores[..., 1], expected.end_logits, atol=1e-4, rtol=0)
    assert loss.total.item() / loss.count == pytest.approx(expected.loss.item(), abs=1e-4)


@pytest.mark.parametrize("segments", [2, 0])
def test_packed_windows_have_the_padded_ones_loss_and_gradient(segments: int) -> None:
    windows_ = data()
    rows = np.arange(len(windows_))
    found = model(BERTConfig(**{**vars(SMALL), "segments": segments})).train()
    gradients, totals = [], []
    for packed in (False, True):
        batch = make_batch(windows_, rows, packed)
        assert isinstance(batch.words, Packing) == packed
        found.zero_grad()
        total = SpanLoss(SpanConfig())(found, batch).total
        total.backward()
        totals.append(total.item())
        gradients.append({name: p.grad.clone() for name, p in found.named_parameters() if p.grad is not None})
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)
    assert gradients[0].keys() == gradients[1].keys() == dict(found.named_parameters()).keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-3, rtol=1e-4, msg=name)


def test_what_cannot_be_chosen_has_no_part_in_it() -> None:
    batch = make_batch(data(), np.array([1]))
    scores = torch.randn(1, batch.ids_BL.shape[1], 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = span_loss(scores.masked_fill(~batch.choosable_BL[..., None], -1e9), batch)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad[~batch.choosable_BL].abs().max() == 0
    assert F.softmax(scores.masked_fill(~batch.choosable_BL[..., None], -1e9), 1)[~batch.choosable_BL].max() == 0
