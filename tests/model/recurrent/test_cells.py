"""Gates with their gradients written down, against autograd over the formulas, numbers against differences, and torch's cells.

Recurrent layers against torch.nn.LSTM and torch.nn.GRU, in values and in gradients: both ways, padded, and word by word.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.model.init import initialise
from regard.model.recurrent.cells import (
    KINDS,
    PARTS,
    Cells,
    GRUGates,
    LSTMGates,
    Recurrence,
    RecurrentEncoder,
    own,
    read_gru,
    turned_places,
)


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


CELLS = st.sampled_from(["lstm", "gru"])


def library(encoder: RecurrentEncoder, cell: str, width: int, layers: int) -> nn.Module:
    """torch's own stack of both ways, with the encoder's weights."""
    ways = [encoder.ahead] if encoder.back is None else [encoder.ahead, encoder.back]
    theirs = KINDS[cell](width, width // len(ways), layers, batch_first=True, bidirectional=len(ways) == 2)
    with torch.no_grad():
        for n in range(layers):
            for way, ending in zip(ways, ("", "_reverse")):
                for kind, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), own(way[n])):
                    getattr(theirs, f"{kind}_l{n}{ending}").copy_(weight)
    return theirs


@given(CELLS, st.integers(1, 3), st.booleans(), st.lists(st.integers(1, 6), min_size=1, max_size=4))
@settings(max_examples=25)
def test_an_encoder_is_torchs_own_over_packed_sequences(cell, layers, bidirectional, lengths):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(cell, 6, layers, bidirectional=bidirectional, dropout=0.0)
    theirs, lengths_B = library(encoder, cell, 6, layers), torch.tensor(lengths)
    x = torch.randn(len(lengths), max(lengths), 6, requires_grad=True)
    found, end = encoder(x, lengths_B)
    packed, last = theirs(pack_padded_sequence(x, lengths_B, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    words = (torch.arange(max(lengths)) < lengths_B[:, None])[..., None]
    torch.testing.assert_close(found * words, expected, atol=1e-6, rtol=1e-5)
    ways = 2 if bidirectional else 1
    last = (last[0] if cell == "lstm" else last).unflatten(0, (layers, ways))[-1].transpose(0, 1).flatten(1)
    torch.testing.assert_close(end, last, atol=1e-6, rtol=1e-5)
    weight, weight_end = torch.randn_like(found), torch.randn_like(end)
    mine = torch.autograd.grad(((found * words) * weight).sum() + (end * weight_end).sum(), [x, *encoder.parameters()])
    others = torch.autograd.grad((expected * weight).sum() + (last * weight_end).sum(), [x, *theirs.parameters()])
    torch.testing.assert_close(mine[0], others[0], atol=1e-5, rtol=1e-4)
    assert sum(part.square().sum() for part in mine).item() == pytest.approx(
        sum(part.square().sum() for part in others).item(), rel=1e-4
    )


def test_nothing_is_asked_of_the_host():
    """Lengths stay on their device: a meta tensor has nothing that could be read."""
    encoder = RecurrentEncoder("gru", 6, 2, bidirectional=True, dropout=0.0).to("meta")
    found, end = encoder(torch.empty(3, 5, 6, device="meta"), torch.empty(3, dtype=torch.long, device="meta"))
    assert found.shape == (3, 5, 6)
    assert end.shape == (3, 6)


def test_turning_round_twice_changes_nothing():
    places = turned_places(torch.tensor([4, 1, 3]), 4)
    assert places.tolist() == [[3, 2, 1, 0], [0, 1, 2, 3], [2, 1, 0, 3]]
    assert torch.equal(places.gather(1, places), torch.arange(4).expand(3, 4))


@given(CELLS, st.integers(1, 3), st.integers(1, 5), st.integers(0, 3))
@settings(max_examples=25)
def test_word_by_word_is_the_whole_sequence_in_values_and_gradients(cell, layers, length, known):
    """Of each input the first `known` numbers are multiplied early, the rest in its turn."""
    torch.manual_seed(1)
    recurrence = Recurrence(cell, 3, 4, layers, dropout=0.0)
    for parameter in recurrence.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, length, 3, requires_grad=True)
    begin = torch.randn(layers, PARTS[cell], 2, 4, requires_grad=True)
    whole = recurrence(x, begin)
    cells, carried, found = Cells(recurrence.layers, known, recurrence.dropout), [tuple(part) for part in begin], []
    for t, known_RG in enumerate(cells.known(x[..., :known].transpose(0, 1)).unbind(0)):
        carried = cells(known_RG if known else None, x[:, t, known:], carried)
        found.append(carried[-1][0])
    torch.testing.assert_close(torch.stack(found, 1), whole, atol=1e-6, rtol=1e-5)
    weight, learned = torch.randn_like(whole), [x, begin, *recurrence.parameters()]
    for a, b in zip(*(torch.autograd.grad((each * weight).sum(), learned) for each in (torch.stack(found, 1), whole))):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cell", KINDS)
def test_a_decoding_step_is_a_step(cell):
    recurrence = Recurrence(cell, 3, 4, 2, dropout=0.0)
    initialise(recurrence, 5)
    x, carried = torch.randn(2, 6, 3), torch.randn(2, PARTS[cell], 2, 4)
    whole = recurrence(x, carried)
    for t in range(6):
        carried = recurrence.step(x[:, t], carried)
        torch.testing.assert_close(carried[-1, 0], whole[:, t])


def test_cells_begin_by_remembering_and_by_turning():
    layer = nn.LSTM(3, 4)
    initialise(layer, 0)
    assert layer.bias_ih_l0.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
    assert not layer.bias_hh_l0.any()
    for gate in layer.weight_hh_l0.split(4):
        torch.testing.assert_close(gate @ gate.T, torch.eye(4), atol=1e-6, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("cell", KINDS)
def test_the_fused_cell_of_a_gpu_is_the_plain_one(cell):
    recurrence = Recurrence(cell, 3, 4, 2, dropout=0.0)
    initialise(recurrence, 5)
    x, begin = torch.randn(2, 5, 3), torch.randn(2, PARTS[cell], 2, 4)
    results = []
    for device in ("cpu", "cuda"):
        layers = recurrence.to(device)
        cells, carried, found = Cells(layers.layers, 1, layers.dropout), [tuple(part) for part in begin.to(device)], []
        for t, known_RG in enumerate(cells.known(x[..., :1].to(device).transpose(0, 1)).unbind(0)):
            carried = cells(known_RG, x[:, t, 1:].to(device), carried)
            found.append(carried[-1][0])
        out = torch.stack(found, 1)
        gradients = torch.autograd.grad(out.square().sum(), list(layers.parameters()))
        results.append([part.detach().cpu() for part in (out, *gradients)])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
