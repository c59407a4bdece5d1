"""Replaced tokens: both losses are transformers' on the same ids, draws come again as they were, gradients stay apart."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.core.errors import UserError
from regard.data.batching.masked import MaskedBatch
from regard.families.electra import ELECTRA, ELECTRAConfig
from regard.model.embedding import VocabularyHead
from regard.objectives import chunked_cross_entropy
from regard.objectives.replaced_token import ReplacedTokenConfig, ReplacedTokenLoss, sample_tokens
from tests.families.public_folder import VOCABULARY, shaken
from tests.objectives.masked_batches import WINDOW, labels, rows, seen, source

CONFIG = ELECTRAConfig(
    width=24, heads=3, layers=2, feedforward=48, maximum_length=WINDOW, dropout=0.0, generator_width=8, embedding_width=10
)
LOSS = ReplacedTokenLoss(ReplacedTokenConfig())
HIDDEN = {"masked": 1.0, "replaced": 0.0}


def model(words: int = 300) -> ELECTRA:
    return shaken(ELECTRA(CONFIG, words), 0.3).eval()


def everything_judged(batch: MaskedBatch) -> MaskedBatch:
    return replace(batch, judged_T=seen(batch).flatten().nonzero().squeeze(1))


def small_ids(batch: MaskedBatch) -> MaskedBatch:
    """Within the vocabulary that folders of tests have."""
    wrap = VOCABULARY - 4
    ids = torch.where(batch.ids_BL > 3, 4 + (batch.ids_BL - 4) % wrap, batch.ids_BL)
    return replace(batch, ids_BL=ids, targets_M=4 + (batch.targets_M - 4) % wrap)


def test_both_losses_are_those_of_transformers(tmp_path: Path) -> None:
    from tests.families.bert_folder import export, transformers

    electra, data = model(VOCABULARY), source(**HIDDEN)
    batch = everything_judged(small_ids(data.batch(rows(data), 0)))
    writer = transformers.ElectraForMaskedLM.from_pretrained(export(tmp_path / "w", electra.generator, model_type="electra"))
    judge = transformers.ElectraForPreTraining.from_pretrained(export(tmp_path / "j", electra.discriminator))
    seen_BL = seen(batch).long()
    filled = writer.eval()(batch.ids_BL, attention_mask=seen_BL, labels=labels(batch))
    x_MD = electra.generator.hidden(batch.ids_BL, batch.words).flatten(0, 1)[batch.masked_M]
    drawn_M = sample_tokens(electra.generator.head, x_MD, batch.chance_M)
    own_BL = torch.where(labels(batch) >= 0, labels(batch), batch.ids_BL)
    filled_BL = own_BL.flatten().scatter(0, batch.masked_M, drawn_M).view_as(own_BL)
    replaced_BL = (filled_BL != own_BL).long()
    assert 0 < replaced_BL.sum() <= len(drawn_M)
    judged = judge.eval()(filled_BL, attention_mask=seen_BL, labels=replaced_BL)
    loss = LOSS(electra, batch)
    torch.testing.assert_close(loss.parts["nll"] / len(batch.targets_M), filled.loss, atol=1e-4, rtol=0)
    torch.testing.assert_close(loss.parts["judged_nll"] / seen_BL.sum(), judged.loss, atol=1e-4, rtol=0)
    torch.testing.assert_close(loss.total, loss.parts["nll"] + 50 * 0.15 * loss.parts["judged_nll"])
    right = ((judged.logits > 0) == replaced_BL.bool())[seen_BL.bool()]
    assert (loss.parts["judged"], loss.parts["right"], loss.parts["replaced"]) == (seen_BL.sum(), right.sum(), replaced_BL.sum())


def test_the_loss_is_the_sum_of_the_means_where_shares_are_whole() -> None:
    data = source(full=True, share=2 / 11, **HIDDEN)  # 2 of 11 words
    every = rows(data, full=True)
    batch = data.batch(every, 0)
    assert batch.tokens == 2 * len(every)
    loss = ReplacedTokenLoss(ReplacedTokenConfig(mask_rate=2 / 11, weight=30.0))(model(), batch)
    means = loss.parts["nll"] / batch.tokens, loss.parts["judged_nll"] / (11 * len(every))
    torch.testing.assert_close(loss.total / loss.count, means[0] + 30 * means[1])


def test_packed_and_padded_are_one_loss() -> None:
    losses = []
    for packed in (False, True):
        data = source(packed=packed, **HIDDEN)
        losses.append(LOSS(model(), data.batch(rows(data), 0)))
    for name, part in losses[0].parts.items():
        torch.testing.assert_close(part, losses[1].parts[name], atol=1e-3, rtol=1e-5)


def test_draws_follow_the_probabilities() -> None:
    head = shaken(VocabularyHead(6, 12, bias=True), 0.5)
    x_D = torch.randn(6, generator=torch.Generator().manual_seed(1))
    chance = torch.rand(40_000, generator=torch.Generator().manual_seed(2))
    drawn = sample_tokens(head, x_D.expand(40_000, 6), chance)
    expected = head(x_D).softmax(-1).detach()
    found = drawn.bincount(minlength=12) / len(drawn)
    assert (found - expected).abs().max() < 4 * 0.5 / 40_000**0.5
    assert expected.max() < 0.9


def test_draws_depend_on_their_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    head, x_MD, chance = shaken(VocabularyHead(6, 12), 0.1), torch.randn(50, 6), torch.rand(50)
    before = torch.get_rng_state()
    first = sample_tokens(head, x_MD, chance)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(sample_tokens(head, x_MD[10:20], chance[10:20]), first[10:20])
    assert not torch.equal(sample_tokens(head, x_MD, chance.flip(0)), first)
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_BYTES, "cpu", 200)
    assert torch.equal(sample_tokens(head, x_MD, chance), first)
    assert len(sample_tokens(head, x_MD[:0], chance[:0])) == 0
    assert sample_tokens(head, x_MD, torch.zeros(50)).tolist() == [0] * 50
    assert sample_tokens(head, x_MD, torch.full((50,), 1 - 2**-24)).tolist() == [11] * 50


def test_parts_of_a_batch_add_up_to_the_whole() -> None:
    electra, data = model(), source(**HIDDEN)
    every = rows(data)
    whole = LOSS(electra, data.batch(every, 0))
    parts = [LOSS(electra, data.batch(every[k::3], 0)) for k in range(3)]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total, atol=1e-3, rtol=1e-5)


def test_no_gradient_of_the_judgement_reaches_the_generator() -> None:
    electra = model().train()
    data = source(**HIDDEN)
    batch = data.batch(rows(data), 0)
    loss = LOSS(electra, batch)
    own = [p for name, p in electra.generator.named_parameters() if not name.startswith(("embed.tokens", "head.project.weight"))]
    alone = [p for p in own if all(p is not q for q in electra.discriminator.parameters())]
    assert len(alone) > 20
    grads = torch.autograd.grad(loss.parts["judged_nll"], alone, retain_graph=True, allow_unused=True)
    assert all(grad is None for grad in grads)
    loss.total.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in electra.parameters())


def test_a_word_drawn_as_it_was_is_not_replaced() -> None:
    electra, data = model(), source(**HIDDEN)
    batch = data.batch(rows(data), 0)
    filled_BL, replaced_T = LOSS._fill_in(batch, batch.targets_M)
    assert not replaced_T.any()
    assert not (filled_BL == 3).any()
    assert LOSS(electra, batch).parts["replaced"] > 0


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"weight": 0.0}, "objective.weight=0.0 must be above 0"),
        ({"weight": float("nan")}, "objective.weight=nan"),
        ({"mask_rate": 2.0}, "objective.mask_rate=2.0"),
    ],
)
def test_settings_that_mean_nothing(choices: dict[str, float], said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        ReplacedTokenConfig(**choices)
