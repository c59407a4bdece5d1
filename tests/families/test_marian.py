"""Marian: its positions, and two vocabularies; parity with transformers is in tests/interop."""

import torch

from regard.families import build_model
from regard.families.marian import MarianConfig
from regard.model.embedding import Sinusoidal

SMALL = dict(width=24, heads=3, feedforward=40, layers=1, dropout=0.0)


def test_all_sines_come_before_all_cosines():
    at, width = torch.arange(9), 24
    halves, turns = Sinusoidal(width, halves=True).embed(at), Sinusoidal(width).embed(at)
    torch.testing.assert_close(halves[:, :12], turns[:, 0::2])
    torch.testing.assert_close(halves[:, 12:], turns[:, 1::2])


def test_two_vocabularies_have_a_table_each_and_the_output_layer_is_the_second():
    model = build_model(MarianConfig(**SMALL, tie="output"), vocabulary=30, target_vocabulary=20)
    assert model.source.tokens.weight.shape == (30, 24)
    assert model.head.project.weight is model.target.tokens.weight
    assert model.head.project.bias.shape == (20,)
