"""Recurrent decoders against their papers' formulas written word by word with torch's cells, and what a probe sees of them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.families.recurrent import Recurrent
from regard.model.probe import probe
from regard.model.recurrent.cells import own
from tests.families.recurrent_models import CHOICES, built, inputs, named


def cell_of(model: Recurrent) -> nn.LSTMCell | nn.GRUCell:
    (layer,) = model.decoder.recurrence.layers
    cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[model.config.cell](layer.input_size, layer.hidden_size)
    for theirs, ours in zip(cell.parameters(), own(layer)):
        theirs.data = ours.data
    return cell


def look(model: Recurrent, s_D: Tensor, memory_MD: Tensor) -> Tensor:
    """One context, by the formula of the score."""
    aligner = model.decoder.aligner
    match model.config.score:
        case "dot":
            scores = [s_D @ h for h in memory_MD]
        case "bilinear":
            scores = [s_D @ aligner.keys.weight @ h for h in memory_MD]
        case "additive":
            inner = [aligner.query.weight @ s_D + aligner.keys.weight @ h for h in memory_MD]
            scores = [aligner.mixer.weight_K @ each.tanh() for each in inner]
    weights = torch.stack(scores).softmax(0)
    return sum(weight * h for weight, h in zip(weights, memory_MD))


def by_the_paper(model: Recurrent, source_M: Tensor, target_L: Tensor) -> Tensor:
    """logits_LV of one pair, one word at a time."""
    decoder, cell = model.decoder, cell_of(model)
    memory_1MD, end_1D = model.encoder(model.source(source_M[None]), torch.tensor([len(source_M)]))
    begin = model.begin(end_1D).tanh().view(-1, model.config.width)
    h, c, o, out = begin[0], begin[-1], torch.zeros(model.config.width), []

    def taken(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(cell, nn.GRUCell):
            return cell(x[None], h[None])[0], c
        return tuple(part[0] for part in cell(x[None], (h[None], c[None])))

    for y in model.target(target_L[None])[0]:
        match model.config.attention:
            case "none":
                h, c = taken(y, h, c)
                o = h
            case "bahdanau":
                seen = look(model, h, memory_1MD[0])
                h, c = taken(torch.cat([y, seen]), h, c)
                o = decoder.deep(torch.cat([h, y, seen])).view(-1, 2).max(1).values
            case "luong":
                h, c = taken(torch.cat([y, o]) if model.config.input_feeding else y, h, c)
                o = decoder.combine(torch.cat([look(model, h, memory_1MD[0]), h])).tanh()
        out.append(model.head(o))
    return torch.stack(out)


@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_it_computes_what_the_paper_says_in_values_and_gradients(choice):
    model = built(**choice)
    source, lengths, target = inputs()
    found = model(source, lengths, target)
    expected = torch.stack([by_the_paper(model, row[:n], words) for row, n, words in zip(source, lengths, target)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    weight = torch.randn_like(found)
    cell = {id(p) for layer in model.decoder.recurrence.layers for p in layer.parameters()}  # the copy's gradients are its own
    learned = [p for p in model.parameters() if id(p) not in cell]
    for a, b in zip(*(torch.autograd.grad((each * weight).sum(), learned) for each in (found, expected))):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("choice", CHOICES[1:], ids=named)
def test_a_probe_sees_every_word_look_and_a_gate_closes_its_eyes(choice):
    model = built(**choice, layers=2)
    source, lengths, target = inputs()
    with torch.no_grad(), probe(model) as seen:
        logits = model(source, lengths, target)
    (name,) = seen
    assert name == ("decoder.0.cross" if choice["attention"] == "bahdanau" else "decoder.1.cross")
    weights_BLM = seen[name].weights()[:, 0]
    assert weights_BLM.shape == (3, 5, 6)
    torch.testing.assert_close(weights_BLM.sum(-1), torch.ones(3, 5))
    for weights_LM, length in zip(weights_BLM, lengths.tolist()):
        assert not weights_LM[:, length:].any()
    with torch.no_grad(), probe(model, {name: torch.zeros(1)}):
        assert not torch.allclose(model(source, lengths, target), logits)
    gate = torch.ones(1, requires_grad=True)
    with probe(model, {name: gate}):
        F.cross_entropy(model(source, lengths, target).flatten(0, 1), target.flatten()).backward()
    assert gate.grad.abs() > 0


def test_a_window_is_seen_around_the_place_of_the_word():
    model = built(visibility="window(1)", input_feeding=True)
    source, _, target = inputs(batch=1, target=8)
    with torch.no_grad(), probe(model) as seen:
        model(source, torch.tensor([6]), target)
    weights_LM = seen["decoder.0.cross"].weights()[0, 0]
    sees = (torch.arange(8)[:, None] - torch.arange(6)).abs() <= 1
    assert torch.equal(weights_LM > 0, sees)
