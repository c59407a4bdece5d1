"""BART: positions begin at row 2 of their table; parity with transformers is in tests/interop."""

import pytest
import torch

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.bart import BARTConfig

SMALL = dict(width=24, heads=3, feedforward=40, layers=1, dropout=0.0, maximum_length=10)


def test_the_first_rows_of_the_table_are_no_positions():
    model = build_model(BARTConfig(**SMALL), vocabulary=30).eval()
    table = model.source.positions.scheme.table.weight
    assert len(table) == 12
    ids, lengths = torch.randint(4, 30, (1, 10)), torch.tensor([10])
    before = model(ids, lengths, ids)
    table.data[:2] += 1
    assert torch.equal(model(ids, lengths, ids), before)
    table.data[2] += torch.randn(24)  # a number for all would be taken away by the norm
    assert not torch.allclose(model(ids, lengths, ids), before)


def test_rows_before_the_first_position_need_a_table():
    with pytest.raises(UserError, match="first_position=2"):
        BARTConfig(**SMALL, position="sinusoidal")
