"""Steps by hand are the gradient that autograd finds for the papers' formula, one pair after the other, in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.word_vectors import Blocks, BlockSource, WordText
from regard.families.word2vec import Word2Vec, Word2VecConfig
from regard.objectives.negative_sampling import CBOWConfig, NegativeSampling, SkipGramConfig, Steps, steady_share

WORDS, WIDTH = 23, 7


def some_text(seed: int, length: int = 60) -> WordText:
    chance = np.random.default_rng(seed)
    ids = chance.integers(0, WORDS, length).astype(np.int32)
    starts = np.unique(np.concatenate([[0], chance.integers(0, length, 5)]))
    return WordText(tuple(f"w{n}" for n in range(WORDS)), np.bincount(ids, minlength=WORDS), ids, starts)


def some_blocks(seed: int, config: SkipGramConfig | CBOWConfig) -> Blocks:
    text, window, block = some_text(seed), config.window, config.block
    source = BlockSource(text, window=window, subsample=0.0, power=0.75, block=block, shared=5, batch=10_000, seed=seed)
    (blocks,) = source.parts(0)
    return blocks


def some_tables(seed: int) -> Word2Vec:
    tables = Word2Vec(Word2VecConfig(width=WIDTH), WORDS, seed)
    generator = torch.Generator().manual_seed(seed)
    for table in (tables.words, tables.contexts):
        table.weight.data.normal_(generator=generator)
    return tables


def pairs(blocks: Blocks, window: int) -> list[tuple[int, int, list[int]]]:
    """(block, word, its neighbours), read off one by one."""
    found = []
    for n, around in enumerate(blocks.around_NM.tolist()):
        for t in range(blocks.left_NT.shape[1]):
            left, right, at = int(blocks.left_NT[n, t]), int(blocks.right_NT[n, t]), t + window
            found.append((n, around[at], around[at - left : at] + around[at + 1 : at + 1 + right]))
    return found


def raised(words: Tensor, contexts: Tensor, blocks: Blocks, window: int, negatives: int, name: str) -> Tensor:
    """Equation 4, summed over all pairs; negatives of a block count as many times as makes `negatives` a pair."""
    total = words.new_zeros(())
    for n, word, neighbours in pairs(blocks, window):
        drawn = blocks.negatives_NK[n].tolist()
        each = negatives / len(drawn)
        if name == "skipgram":
            asked = [(words[word], contexts[other]) for other in neighbours]
        else:
            asked = [(words[neighbours].mean(0), contexts[word])] if neighbours else []
        for x, y in asked:
            total = total + torch.log(torch.sigmoid(x @ y))
            total = total + each * sum(torch.log(torch.sigmoid(-x @ contexts[other])) for other in drawn)
    return total


def summed(found: list[Steps]) -> Tensor:
    total = torch.zeros(WORDS, WIDTH)
    for rows, steps, _ in found:
        total.index_add_(0, rows, steps)
    return total


@pytest.mark.parametrize("name", ["skipgram", "cbow"])
@settings(max_examples=4)
@given(seed=st.integers(0, 1000), window=st.integers(1, 4), negatives=st.integers(1, 9))
def test_steps_are_the_gradient_of_the_formula(name: str, seed: int, window: int, negatives: int) -> None:
    config = (SkipGramConfig if name == "skipgram" else CBOWConfig)(window=window, negatives=negatives)
    tables, blocks = some_tables(seed), some_blocks(seed, config)
    words, contexts = (t.weight.double().requires_grad_() for t in (tables.words, tables.contexts))
    expected = raised(words, contexts, blocks, window, negatives, name)
    expected.backward()
    to_words, to_contexts = (summed(found) for found in NegativeSampling(tables, config).find(blocks))
    assert contexts.grad is not None
    torch.testing.assert_close(to_contexts.double(), contexts.grad, rtol=1e-4, atol=1e-4)
    if name == "skipgram":
        assert words.grad is not None
        torch.testing.assert_close(to_words.double(), words.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", [1, 3])
def test_cbow_gives_each_neighbour_the_whole_error_of_the_mean(window: int) -> None:
    config = CBOWConfig(window=window, negatives=2)
    tables, blocks = some_tables(3), some_blocks(3, config)
    words, contexts = (t.weight.double() for t in (tables.words, tables.contexts))
    expected = torch.zeros(WORDS, WIDTH, dtype=torch.float64)
    for n, word, neighbours in pairs(blocks, window):
        if not neighbours:
            continue
        mean, drawn = words[neighbours].mean(0).requires_grad_(), contexts[blocks.negatives_NK[n]]
        right = torch.log(torch.sigmoid(mean @ contexts[word]))
        (right + 2 / 5 * torch.log(torch.sigmoid(-drawn @ mean)).sum()).backward()
        for other in neighbours:
            assert mean.grad is not None
            expected[other] += mean.grad
    found, _ = NegativeSampling(tables, config).find(blocks)
    torch.testing.assert_close(summed(found).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("config", [SkipGramConfig(window=3), CBOWConfig(window=3)])
def test_the_loss_is_what_the_formula_raises_as_a_mean(config: SkipGramConfig | CBOWConfig) -> None:
    tables, blocks = some_tables(5), some_blocks(5, config)
    total = raised(tables.words.weight.double(), tables.contexts.weight.double(), blocks, 3, config.negatives, config.name)
    neighbours = [len(others) for _, _, others in pairs(blocks, 3)]
    count = sum(neighbours) if config.name == "skipgram" else sum(map(bool, neighbours))
    assert NegativeSampling(tables, config).loss(blocks) == pytest.approx(-total.item() / count, rel=1e-4)


@pytest.mark.parametrize("config", [SkipGramConfig(window=2), CBOWConfig(window=2)])
def test_steps_are_taken_times_the_rate(config: SkipGramConfig | CBOWConfig) -> None:
    tables, blocks = some_tables(1), some_blocks(1, config)
    before, method = tables.contexts.weight.clone(), NegativeSampling(tables, config)
    found = method.find(blocks)
    expected = before + 1e-3 * summed(found[1])
    method.take(1, found[1], 1e-3)  # a rate at which nothing is shortened
    torch.testing.assert_close(tables.contexts.weight, expected)
    assert not any(tally.any() for tally in method.tally)


def test_finding_changes_nothing() -> None:
    config = CBOWConfig(window=2)
    tables, blocks = some_tables(2), some_blocks(2, config)
    before = {name: weight.clone() for name, weight in tables.state_dict().items()}
    NegativeSampling(tables, config).find(blocks)
    assert all(torch.equal(before[name], weight) for name, weight in tables.state_dict().items())


def test_a_row_that_comes_too_often_is_shortened_and_the_others_are_not() -> None:
    tally, rows, weight = torch.zeros(5), torch.tensor([1, 1, 1, 2]), torch.tensor([2.0, 2.0, 4.0, 3.0])
    assert steady_share(tally, rows, weight, 4.0).tolist() == [0.5, 0.5, 0.5, 1.0]
    assert not tally.any()
    assert steady_share(tally, rows, weight, 8.0).tolist() == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("config", [SkipGramConfig(), CBOWConfig(), CBOWConfig(window=1)])
@pytest.mark.parametrize("words", [1, 3, 20])
def test_a_text_of_few_words_does_not_burst(words: int, config: SkipGramConfig | CBOWConfig) -> None:
    """The same rows hundreds of times in every batch, at a rate far above any that is used."""
    ids = np.random.default_rng(0).integers(0, words, 4096).astype(np.int32)
    text = WordText(tuple(map(str, range(20))), np.bincount(ids, minlength=20), ids, np.array([0]))
    source = BlockSource(
        text, window=config.window, subsample=0.0, power=0.75, block=config.block, shared=config.shared, batch=2048, seed=1
    )
    method = NegativeSampling(Word2Vec(Word2VecConfig(width=WIDTH), 20, 1), config)
    for step in range(60):
        for part in source.parts(step):
            found = method.find(part)
            for table in (0, 1):
                method.take(table, found[table], 0.5)
    assert all(table.abs().max() < 20 for table in method.both)


@pytest.mark.parametrize("setting", [{"window": 0}, {"negatives": 0}, {"subsample": 1.0}, {"power": -1.0}, {"window": 101}])
def test_settings_without_sense_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"objective.{next(iter(setting))}="):
        SkipGramConfig(**setting)  # type: ignore[arg-type]
