"""GloVe's loss is the paper's sum, its gradient autograd's, and its steps those of torch's own AdaGrad."""

from __future__ import annotations

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.word_vectors import Entries
from regard.families.word2vec import Word2Vec, Word2VecConfig
from regard.objectives.glove import GloVe, GloVeConfig

WORDS, WIDTH = 9, 4


def some_entries(seed: int, count: int = 30) -> Entries:
    chance = torch.Generator().manual_seed(seed)
    rows, columns = (torch.randint(0, WORDS, (count,), generator=chance) for _ in "ab")
    return Entries(rows, columns, torch.rand(count, generator=chance) * 300 + 0.1)


def some_glove(seed: int, config: GloVeConfig) -> GloVe:
    tables = Word2Vec(Word2VecConfig(width=WIDTH), WORDS, seed, counted=True)
    generator = torch.Generator().manual_seed(seed)
    for parameter in tables.parameters():
        parameter.data.normal_(generator=generator)
    return GloVe(tables, config)


def cost(entries: Entries, words: Tensor, contexts: Tensor, b: Tensor, c: Tensor, x_max: float, alpha: float) -> Tensor:
    """Equations 8 and 9, one entry after the other."""
    total = words.new_zeros(())
    for i, j, x in zip(*(each.tolist() for each in entries)):
        weight = (x / x_max) ** alpha if x < x_max else 1.0
        total = total + weight * (words[i] @ contexts[j] + b[i] + c[j] - log(x)) ** 2
    return total


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), x_max=st.floats(1, 200), alpha=st.floats(0, 2))
def test_loss_and_gradients_are_those_of_the_formula(seed: int, x_max: float, alpha: float) -> None:
    glove, entries = some_glove(seed, GloVeConfig(x_max=x_max, alpha=alpha)), some_entries(seed)
    t = glove.tables
    leaves = [x.data.double().requires_grad_() for x in (t.words.weight, t.contexts.weight, t.word_bias_V, t.context_bias_V)]
    expected = cost(entries, *leaves, x_max, alpha)
    expected.backward()
    assert glove.loss(entries) == pytest.approx(expected.item() / len(entries.counts_E), rel=1e-4)
    for table, (gradients,) in enumerate(glove.find(entries)):
        for got, leaf in ((gradients.vectors_ED, leaves[table]), (gradients.biases_E, leaves[2 + table])):
            summed = torch.zeros_like(leaf).index_add_(0, gradients.rows_E, got.double())
            assert leaf.grad is not None
            torch.testing.assert_close(2 * summed, leaf.grad, rtol=1e-4, atol=1e-3)


def test_steps_are_those_of_adagrad() -> None:
    """Three batches in which no row comes twice, since AdaGrad sees one gradient a row."""
    glove, rate = some_glove(1, GloVeConfig()), 0.05
    t = glove.tables
    leaves = [x.data.clone().requires_grad_() for x in (t.words.weight, t.contexts.weight, t.word_bias_V, t.context_bias_V)]
    adagrad = torch.optim.Adagrad(leaves, lr=1.0, initial_accumulator_value=1 / rate**2, eps=0.0)
    for seed in range(3):
        entries = Entries(torch.randperm(WORDS), torch.randperm(WORDS), some_entries(seed, WORDS).counts_E)
        adagrad.zero_grad()
        (cost(entries, *leaves, 100.0, 0.75) / 2).backward()
        adagrad.step()
        found = glove.find(entries)
        for table in (0, 1):
            glove.take(table, found[table], rate)
    for got, leaf in zip((t.words.weight, t.contexts.weight, t.word_bias_V, t.context_bias_V), leaves):
        torch.testing.assert_close(got.data, leaf.data, rtol=1e-4, atol=1e-5)


def test_a_matrix_that_has_such_vectors_is_learned() -> None:
    chance = torch.Generator().manual_seed(0)
    true, other = (torch.randn(WORDS, 2, generator=chance) * 0.7 for _ in "ab")
    rows, columns = torch.cartesian_prod(torch.arange(WORDS), torch.arange(WORDS)).T
    entries = Entries(rows, columns, (true[rows] * other[columns]).sum(1).exp())
    glove = GloVe(Word2Vec(Word2VecConfig(width=WIDTH), WORDS, 1, counted=True), GloVeConfig(x_max=1.0))
    first = glove.loss(entries)
    for _ in range(600):
        found = glove.find(entries)
        for table in (0, 1):
            glove.take(table, found[table], 0.2)
    assert glove.loss(entries) < 0.03 * first


@pytest.mark.parametrize("setting", [{"window": 0}, {"x_max": 0.0}, {"x_max": float("nan")}, {"alpha": -1.0}])
def test_settings_without_sense_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"objective.{next(iter(setting))}="):
        GloVeConfig(**setting)  # type: ignore[arg-type]
