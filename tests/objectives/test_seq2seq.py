"""The translation loss against losses written by hand: smoothing as in the paper, padding worth nothing, sums that add up."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.data.batching.pairs import Batch, EncodedPairs, Ragged, make_batch
from regard.model.embedding import VocabularyHead
from regard.objectives.base import Loss
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.text.specials import PAD

VOCABULARY = 11
SENTENCES = st.lists(st.integers(4, VOCABULARY - 1), max_size=5)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=5)


def unchanged() -> VocabularyHead:
    """A head that takes vectors for logits."""
    head = VocabularyHead(VOCABULARY, VOCABULARY)
    head.project.weight = nn.Parameter(torch.eye(VOCABULARY), requires_grad=False)
    return head


class Bigrams(nn.Module):
    """Predicts from the previous word and the source's first, so that every sentence is judged by itself."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(VOCABULARY, VOCABULARY, VOCABULARY, generator=generator))
        self.dropout = nn.Dropout(dropout)
        self.head = unchanged()

    def forward(self, source_BM: Tensor, source_lengths_B: Tensor, target_in_BL: Tensor) -> Tensor:
        return self.hidden(source_BM, source_lengths_B, target_in_BL)

    def hidden(self, source_BM: Tensor, source_lengths_B: Tensor, target_in_BL: Tensor) -> Tensor:
        return self.dropout(self.table[source_BM[:, :1], target_in_BL])


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    data = EncodedPairs(Ragged([source for source, _ in pairs]), Ragged([target for _, target in pairs]))
    return make_batch(data, np.arange(len(pairs)))


def loss_of(model: nn.Module, batch: Batch, smoothing: float) -> Loss:
    return Seq2SeqLoss(Seq2SeqConfig(smoothing=smoothing))(model, batch)


def by_hand(model: nn.Module, batch: Batch, smoothing: float) -> float:
    """Word by word: minus the sum over the vocabulary of aim x log-probability."""
    logits_BLV = model(batch.source_BM, batch.source_lengths_B, batch.target_in_BL)
    total = 0.0
    for row, length in enumerate(batch.target_lengths_B.tolist()):
        for place in range(length):
            scores = logits_BLV[row, place].tolist()
            normaliser = math.log(sum(math.exp(score) for score in scores))
            for word, score in enumerate(scores):
                right = word == int(batch.target_out_BL[row, place])
                aim = smoothing / VOCABULARY + (1 - smoothing if right else 0.0)
                total -= aim * (score - normaliser)
    return total


@given(PAIRS, st.floats(0, 0.9))
@settings(max_examples=25)
def test_smoothing_is_the_papers(pairs: list[tuple[list[int], list[int]]], smoothing: float) -> None:
    model, batch = Bigrams(), batch_of(pairs)
    assert loss_of(model, batch, smoothing).total.item() == pytest.approx(by_hand(model, batch, smoothing), rel=1e-4)


@given(PAIRS)
@settings(max_examples=25)
def test_without_smoothing_it_is_cross_entropy(pairs: list[tuple[list[int], list[int]]]) -> None:
    model, batch = Bigrams().eval(), batch_of(pairs)
    logits_BLV = model(batch.source_BM, batch.source_lengths_B, batch.target_in_BL)
    words = batch.target_out_BL != PAD
    expected = nn.CrossEntropyLoss(reduction="sum")(logits_BLV[words], batch.target_out_BL[words])
    loss = loss_of(model, batch, 0.0)
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.parts["nll"], expected)
    assert loss.count == int(words.sum())


@given(PAIRS, st.sampled_from([0.0, 0.1]))
@settings(max_examples=25)
def test_a_batch_is_the_sum_of_its_sentences(pairs: list[tuple[list[int], list[int]]], smoothing: float) -> None:
    model = Bigrams().eval()
    whole = loss_of(model, batch_of(pairs), smoothing)
    alone = [loss_of(model, batch_of([pair]), smoothing) for pair in pairs]
    torch.testing.assert_close(whole.total, torch.stack([loss.total for loss in alone]).sum())
    torch.testing.assert_close(whole.parts["nll"], torch.stack([loss.parts["nll"] for loss in alone]).sum())
    assert whole.count == sum(loss.count for loss in alone)


def test_padding_draws_no_gradient() -> None:
    batch = batch_of([([4], [5]), ([6], [7, 8, 9])])
    logits_BLV = torch.randn(2, 4, VOCABULARY, requires_grad=True)
    loss_of(Answer(logits_BLV), batch, 0.1).total.backward()
    assert logits_BLV.grad is not None
    assert (logits_BLV.grad[0, 2:] == 0).all()  # "5 <eos>" and two of padding
    assert (logits_BLV.grad[0, :2] != 0).all()
    assert (logits_BLV.grad[1] != 0).all()


class Answer(nn.Module):
    """A model that has made up its mind."""

    def __init__(self, logits_BLV: Tensor) -> None:
        super().__init__()
        self.logits_BLV, self.head = logits_BLV, unchanged()

    def hidden(self, source_BM: Tensor, source_lengths_B: Tensor, target_in_BL: Tensor) -> Tensor:
        return self.logits_BLV


def test_half_precision_logits_are_summed_in_full() -> None:
    batch = batch_of([([4], [5, 6])])
    logits_BLV = torch.randn(1, 3, VOCABULARY).bfloat16()
    total = loss_of(Answer(logits_BLV), batch, 0.1).total
    assert total.dtype == torch.float32
    assert torch.equal(total, loss_of(Answer(logits_BLV.float()), batch, 0.1).total)


def test_validation_reports_the_unsmoothed_loss_and_training_only_its_own() -> None:
    batch = batch_of([([4], [5, 6])])
    model = Bigrams()
    assert loss_of(model.train(), batch, 0.1).parts == {}
    judged = loss_of(model.eval(), batch, 0.1)
    torch.testing.assert_close(judged.parts["nll"], loss_of(model, batch, 0.0).total)
    assert judged.parts["nll"] != judged.total


# ----------------------------------------------------------------------------------------------------- r_drop (R-Drop)


def agreeing(r_drop: float, smoothing: float = 0.1) -> Seq2SeqLoss:
    return Seq2SeqLoss(Seq2SeqConfig(smoothing=smoothing, r_drop=r_drop))


@given(PAIRS)
@settings(max_examples=20)
def test_without_dropout_there_is_nothing_to_agree_on(pairs: list[tuple[list[int], list[int]]]) -> None:
    model, batch = Bigrams().train(), batch_of(pairs)
    torch.testing.assert_close(agreeing(5.0)(model, batch).total, loss_of(model, batch, 0.1).total)


def test_agreement_is_the_papers_halved() -> None:
    """Liang et al. 2021, equations 1 to 3, with torch's own divergence: L = NLL(p) + NLL(q) + a (KL(p|q) + KL(q|p)) / 2."""
    batch = batch_of([([4], [5]), ([6], [7, 8, 9])])
    first, second = torch.randn(2, 4, VOCABULARY), torch.randn(2, 4, VOCABULARY)
    words = batch.target_out_BL != PAD
    p, q, right = first[words].log_softmax(-1), second[words].log_softmax(-1), batch.target_out_BL[words]
    divergence = nn.KLDivLoss(reduction="sum", log_target=True)
    nll = nn.NLLLoss(reduction="sum")
    expected = nll(p, right) + nll(q, right) + 3.0 * (divergence(p, q) + divergence(q, p)) / 2
    loss = agreeing(3.0, smoothing=0.0)(Answer(torch.cat([first, second])).train(), batch)
    torch.testing.assert_close(loss.total, expected / 2)
    assert loss.count == batch.tokens


def test_the_two_passes_drop_differently_and_validation_passes_once() -> None:
    batch, model = batch_of([([4], [5, 6])]), Bigrams(dropout=0.5)
    torch.manual_seed(0)
    strong = agreeing(5.0)(model.train(), batch).total
    torch.manual_seed(0)
    assert strong > agreeing(1e-9)(model.train(), batch).total
    torch.testing.assert_close(agreeing(5.0)(model.eval(), batch).total, loss_of(model, batch, 0.1).total)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 2.0, math.nan, math.inf])
def test_smoothing_outside_its_range_is_told(smoothing: float) -> None:
    with pytest.raises(UserError, match=r"objective\.smoothing"):
        Seq2SeqConfig(smoothing=smoothing)


@pytest.mark.parametrize("r_drop", [-0.1, math.nan, math.inf])
def test_agreement_outside_its_range_is_told(r_drop: float) -> None:
    with pytest.raises(UserError, match=r"objective\.r_drop"):
        Seq2SeqConfig(r_drop=r_drop)
