"""Next token: the sum of what each document loses alone, however documents are laid out, and what torch's own loss says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.data.batching.windows import Windows
from regard.families.gpt import GPT, GPTConfig
from regard.objectives.causal_lm import CausalLMConfig, CausalLMLoss

EOS, VOCABULARY, LENGTH = 2, 61, 16
DRAW = np.random.default_rng(0)
DOCUMENTS = [[*DRAW.integers(4, VOCABULARY, length).tolist(), EOS] for length in (3, 9, 40, 1, 21, 6, 33, 2)]
IDS = np.concatenate(DOCUMENTS).astype(np.uint16)
STARTS = np.cumsum([0, *map(len, DOCUMENTS)])[:-1]


@pytest.fixture(scope="module")
def gpt() -> GPT:
    config = GPTConfig(width=32, heads=4, layers=2, feedforward=64, dropout=0.0, maximum_length=LENGTH)
    model, draw = GPT(config, VOCABULARY, seed=1).eval(), torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)
    return model


def total(gpt: GPT, **layout: bool) -> tuple[float, int]:
    loss, source = CausalLMLoss(CausalLMConfig()), Windows(IDS, LENGTH, 4 * LENGTH, 1, STARTS, **layout)
    with torch.no_grad():
        found = [loss(gpt, batch) for batch in source.in_order()]
    return sum(one.total.item() for one in found), sum(one.count for one in found)


def alone(gpt: GPT, pieces: list[list[int]], aims: list[list[int]]) -> float:
    with torch.no_grad():
        losses = [
            F.cross_entropy(gpt(torch.tensor([piece]))[0], torch.tensor(aim), reduction="sum") for piece, aim in zip(pieces, aims)
        ]
    return sum(loss.item() for loss in losses)


def test_apart_every_document_loses_what_it_loses_alone(gpt: GPT) -> None:
    pieces, aims = [], []
    for begin in range(0, len(IDS) - 1, LENGTH):
        ids, after = IDS[begin : begin + LENGTH + 1][:-1].tolist(), IDS[begin + 1 : begin + LENGTH + 1].tolist()
        cuts = [0, *(n for n in range(1, len(ids)) if ids[n] == EOS), len(ids)]  # an end token begins the next document
        pieces += [ids[a:b] for a, b in pairwise(cuts)]
        aims += [after[a:b] for a, b in pairwise(cuts)]
    expected = alone(gpt, pieces, aims)
    assert total(gpt, apart=True) == (pytest.approx(expected, rel=1e-5), len(IDS) - 1)
    assert total(gpt, apart=True, packed=True) == (pytest.approx(expected, rel=1e-5), len(IDS) - 1)
    assert abs(total(gpt)[0] - expected) > 1e-3 * expected  # seeing the documents before makes a difference


def test_together_it_is_the_loss_of_each_window(gpt: GPT) -> None:
    begins = range(0, len(IDS) - 1, LENGTH)
    pieces = [IDS[begin : begin + LENGTH][: len(IDS) - 1 - begin].tolist() for begin in begins]
    aims = [IDS[begin + 1 : begin + LENGTH + 1].tolist() for begin in begins]
    assert total(gpt) == (pytest.approx(alone(gpt, pieces, aims), rel=1e-5), len(IDS) - 1)


def test_gradients_of_both_layouts_agree(gpt: GPT) -> None:
    found = []
    for packed in (False, True):
        gpt.zero_grad()
        batch = next(Windows(IDS, LENGTH, 4 * LENGTH, 1, STARTS, apart=True, packed=packed).in_order())
        CausalLMLoss(CausalLMConfig())(gpt, batch).total.backward()
        found.append({name: parameter.grad.clone() for name, parameter in gpt.named_parameters()})
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, atol=1e-4, rtol=1e-4, msg=name)
