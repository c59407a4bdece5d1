"""Two towers on one body: vectors of length 1, blind to padding, and at first what the body itself says."""

from __future__ import annotations

import pytest
import torch

from regard.families.bert import BERTConfig
from regard.families.encoder import EncoderConfig
from regard.families.two_tower import TwoTower, count, towers
from regard.families.word2vec import Word2VecConfig

ENCODER = EncoderConfig(width=16, heads=2, layers=2, feedforward=24, dropout=0.0)
BERT = BERTConfig(width=16, heads=2, layers=2, feedforward=24, dropout=0.0, maximum_length=16)
CONFIGS = {"encoder": ENCODER, "bert": BERT, "words": Word2VecConfig(width=16)}
every = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def made(config) -> TwoTower:
    return towers(config, 20, seed=1).eval()


@every
@torch.no_grad()
def test_a_batch_says_what_each_text_alone_says(config) -> None:
    model = made(config)
    texts = [[4, 5, 6], [7], [8, 9, 10, 11, 12]]
    ids, lengths = torch.full((3, 7), 3), torch.tensor([3, 1, 5])  # what is behind a text must not matter
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
    for side in ("contexts", "replies"):
        together = model(ids, lengths, side)
        torch.testing.assert_close(together.norm(dim=-1), torch.ones(3))
        for row, text in enumerate(texts):
            alone = model(torch.tensor([text]), torch.tensor([len(text)]), side)
            torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-5)


@every
@torch.no_grad()
def test_at_first_both_sides_are_the_mean_of_the_bodys_words(config) -> None:
    model, ids = made(config), torch.tensor([[4, 5, 6, 7]])
    mean = model.body.hidden(ids, torch.tensor([4]))[0].mean(0)
    for side in ("contexts", "replies"):
        torch.testing.assert_close(model(ids, torch.tensor([4]), side)[0], mean / mean.norm())


@every
def test_gradients_reach_every_parameter(config) -> None:
    model, ids = made(config).train(), torch.tensor([[4, 5, 6], [7, 8, 9]])
    if config.family == "bert":
        ids = torch.arange(20).view(2, 10)
    lengths = torch.full((2,), ids.shape[1])
    (model(ids, lengths, "contexts") * torch.randn(2, 16) + model(ids, lengths, "replies") * torch.randn(2, 16)).sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]


@every
def test_parameters_are_counted_as_they_are(config) -> None:
    assert count(config, 20, 5, 5).parameters == sum(p.numel() for p in made(config).parameters())
