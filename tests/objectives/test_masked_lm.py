"""Masked words and next sentences: the loss is transformers', the same packed or padded, and adds up over parts of a batch."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import UserError
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.objectives.masked_lm import MaskedLMConfig, MaskedLMLoss
from tests.families.public_folder import shaken
from tests.objectives.masked_batches import WINDOW, is_packed, labels, rows, seen, source

CONFIG = BERTConfig(width=24, heads=3, layers=2, feedforward=40, maximum_length=WINDOW, dropout=0.0)
NEXT = MaskedLMLoss(MaskedLMConfig(next_sentence=True))


def model() -> BERT:
    return shaken(BERT(CONFIG, 300, heads=Heads(next_sentence=True)), 0.3).eval()


@pytest.mark.parametrize("full", [True, False])
def test_the_loss_is_that_of_bert_for_pre_training(full: bool) -> None:
    from tests.families.bert_folder import opened, theirs

    peer = theirs("bert", "BertForPreTraining").eval()
    ours, data = opened(peer), source(pairs=True, full=full)
    batch = data.batch(rows(data, full), 0)
    inputs = {"input_ids": batch.ids_BL, "attention_mask": seen(batch).long(), "token_type_ids": batch.segments_BL}
    expected = peer(**inputs, labels=labels(batch), next_sentence_label=batch.strange_N)
    loss = NEXT(ours, batch)
    words = F.cross_entropy(expected.prediction_logits.flatten(0, 1), labels(batch).flatten())
    following = F.cross_entropy(expected.seq_relationship_logits, batch.strange_N)
    torch.testing.assert_close(loss.parts["nll"] / len(batch.targets_M), words, atol=1e-4, rtol=0)
    torch.testing.assert_close(loss.parts["next_nll"] / len(batch.strange_N), following, atol=1e-4, rtol=0)
    assert words > 1
    assert following > 0.1
    if full:  # where all are of one length, means of means are means
        torch.testing.assert_close(loss.total / loss.count, expected.loss, atol=1e-4, rtol=0)
    found = expected.prediction_logits.argmax(-1).flatten()[batch.masked_M]
    assert loss.parts["right"] == (found == batch.targets_M).sum()
    assert loss.parts["next_right"] == (expected.seq_relationship_logits.argmax(-1) == batch.strange_N).sum()


@pytest.mark.parametrize("pairs", [False, True])
def test_packed_and_padded_are_one_loss(pairs: bool) -> None:
    objective, bert = MaskedLMLoss(MaskedLMConfig(next_sentence=pairs)), model()
    losses = []
    for packed in (False, True):
        data = source(pairs=pairs, packed=packed)
        batch = data.batch(rows(data), 0)
        assert is_packed(batch) == packed
        losses.append(objective(bert, batch))
    for name, part in losses[0].parts.items():
        torch.testing.assert_close(part, losses[1].parts[name], atol=1e-3, rtol=1e-5)
    torch.testing.assert_close(losses[0].total, losses[1].total, atol=1e-3, rtol=1e-5)
    assert losses[0].count == losses[1].count


def test_parts_of_a_batch_add_up_to_the_whole() -> None:
    bert, data = model(), source(pairs=True)
    every = rows(data)
    whole = NEXT(bert, data.batch(every, 0))
    parts = [NEXT(bert, data.batch(every[k::3], 0)) for k in range(3)]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total, atol=1e-3, rtol=1e-5)
    assert sum(part.count for part in parts) == whole.count


def test_in_training_it_is_the_same_loss_and_reaches_every_weight() -> None:
    bert, data = model(), source(pairs=True)
    batch = data.batch(rows(data), 0)
    expected = NEXT(bert, batch).total
    total = NEXT(bert.train(), batch).total
    torch.testing.assert_close(total, expected)
    total.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in bert.parameters())


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan"), float("inf")])
def test_a_share_that_is_none(share: float) -> None:
    with pytest.raises(UserError, match=re.escape(f"objective.mask_rate={share} must be between 0 and 1")):
        MaskedLMConfig(mask_rate=share)
