"""Gates with their gradients written down, against autograd over the formulas, numbers against differences, and torch's cells."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.model.recurrent.cells import GRUGates, LSTMGates, read_gru


def some(*shapes):
    return [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize(("gates", "count"), [(LSTMGates, 4), (GRUGates, 3)])
def test_gradients_are_the_differences(gates, count):
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(gates.apply, some((2, count * 3), (2, count * 3), (2, 3)))


def test_an_lstm_cell_is_torchs():
    given_RG, carried_RG, c_RD, h_RD = some((3, 8), (3, 8), (3, 2), (3, 2))
    eye, none = torch.eye(8, dtype=torch.double), torch.zeros(8, 2, dtype=torch.double)
    expected = torch.lstm_cell(given_RG + carried_RG, (h_RD, c_RD), eye, none)
    for a, b in zip(LSTMGates.apply(given_RG, carried_RG, c_RD), expected):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("asked", [0, 1])
def test_only_one_of_h_and_c_may_be_asked_for(asked):
    parts = some((3, 8), (3, 8), (3, 2))
    i, f, g, o = (parts[0] + parts[1]).chunk(4, 1)
    c = f.sigmoid() * parts[2] + i.sigmoid() * g.tanh()
    expected = torch.autograd.grad((o.sigmoid() * c.tanh(), c)[asked].sum(), parts)
    for a, b in zip(torch.autograd.grad(LSTMGates.apply(*parts)[asked].sum(), parts), expected):
        torch.testing.assert_close(a, b)


@given(st.integers(1, 4), st.integers(1, 6), st.booleans())
@settings(max_examples=15)
def test_reading_by_a_gru_is_torchs_own(rows, length, begun):
    torch.manual_seed(0)
    layer = nn.GRU(3, 4, batch_first=True).double()
    x, h = some((rows, length, 3), (rows, 4))
    found = read_gru(layer, x, h if begun else None)
    expected = layer(x, h[None] if begun else None)[0]
    torch.testing.assert_close(found, expected)
    weight, learned = torch.randn_like(found), [x, *([h] if begun else []), *layer.parameters()]
    for a, b in zip(*(torch.autograd.grad((each * weight).sum(), learned) for each in (found, expected))):
        torch.testing.assert_close(a, b)
