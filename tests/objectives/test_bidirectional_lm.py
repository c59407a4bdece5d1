"""The loss of ELMo against LSTMs run by hand, and what each direction may see."""

from __future__ import annotations

import torch
from torch import nn

from regard.data.batching.windows import WindowBatch
from regard.objectives.causal_lm import BidirectionalLMConfig, BidirectionalLMLoss
from tests.families.test_elmo import WORDS, built, by_hand, texts


@torch.no_grad()
def test_the_loss_is_both_ways_and_every_word_is_asked_from_both_sides() -> None:
    model, window = built(), texts([9])
    found = BidirectionalLMLoss()(model, WindowBatch(window[:, :-1], window[:, 1:], 8))
    ahead_V = by_hand(model, window[0, :-1])[-1][:, :6] @ model.embed.tokens.weight.T + model.head.project.bias
    back_V = by_hand(model, window[0, 1:])[-1][:, 6:] @ model.embed.tokens.weight.T + model.head.project.bias
    ahead = nn.functional.cross_entropy(ahead_V, window[0, 1:], reduction="sum")
    back = nn.functional.cross_entropy(back_V, window[0, :-1], reduction="sum")
    torch.testing.assert_close(found.parts, {"nll": (ahead + back) / 2, "ahead": ahead, "back": back}, atol=1e-4, rtol=1e-5)
    assert found.total is found.parts["nll"]
    assert found.count == 8


@torch.no_grad()
def test_the_first_token_matters_to_the_forward_loss_and_the_last_to_the_backward_loss() -> None:
    """Only the forward direction reads the first token, and only the backward direction reads the last."""
    model, window = built(), texts([9])
    parts = []
    for place in (None, 0, 8):
        changed = window.clone()
        if place is not None:
            changed[0, place] = (window[0, place] - 3) % (WORDS - 4) + 4
        ids_BL, next_BL = changed[:, :-1], changed[:, 1:]
        forward = model.read_ahead(ids_BL)[-1]
        backward = model.read_back(next_BL, torch.tensor([8]))[-1]
        parts.append((forward, backward))
    plain, first, last = parts
    assert not torch.equal(first[0], plain[0])
    assert torch.equal(first[1], plain[1])
    assert torch.equal(last[0], plain[0])
    assert not torch.equal(last[1], plain[1])


def test_both_directions_learn_and_a_batch_is_two_passes() -> None:
    model, window = built().train(), texts([9, 9])
    BidirectionalLMLoss()(model, WindowBatch(window[:, :-1], window[:, 1:], 16)).total.backward()
    layers = [layer for layers in (model.ahead, model.back) for layer in layers]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for layer in layers for p in layer.parameters())
    assert isinstance(layers[0], nn.LSTM)
    assert BidirectionalLMConfig().passes == 2
