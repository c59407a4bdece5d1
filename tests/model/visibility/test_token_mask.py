"""Who is seen in padded rows, in one packed row and in rows of several pieces: the same as in each sequence alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.packing import Packing, Pieces, to_device
from regard.families.gpt import GPT, GPTConfig
from regard.model.visibility import causal, dense, only_words, positions

VOCABULARY = 53


@pytest.fixture(scope="module", params=["full", "window(3)"])
def gpt(request: pytest.FixtureRequest) -> GPT:
    config = GPTConfig(width=32, heads=4, layers=2, feedforward=64, dropout=0.0, maximum_length=24, visibility=request.param)
    model = GPT(config, VOCABULARY, seed=1).eval()
    draw = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=draw)
    return model


rows = st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=6).filter(lambda row: sum(row) <= 24), min_size=1, max_size=4)


def filled(lengths: list[list[int]]) -> list[list[int]]:
    """Every row made as long as the longest by one more sequence."""
    longest = max(map(sum, lengths))
    return [[*row, longest - sum(row)] if sum(row) < longest else row for row in lengths]


@given(rows.map(filled), st.integers(0, 99))
@settings(max_examples=25)
def test_every_sequence_reads_as_if_it_were_alone(gpt: GPT, lengths: list[list[int]], seed: int) -> None:
    flat = [length for row in lengths for length in row]
    ids_T = torch.randint(VOCABULARY, (sum(flat),), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        alone = torch.cat([gpt(ids[None])[0] for ids in ids_T.split(flat)])
        packed = gpt(ids_T[None], Packing.of(flat))[0]
        pieces = gpt(ids_T.view(len(lengths), -1), Pieces.of(flat, len(lengths))).flatten(0, 1)
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(pieces, alone, atol=1e-5, rtol=1e-5)


def test_gradients_too(gpt: GPT) -> None:
    flat, ids_T = [5, 7, 12], torch.arange(24) % VOCABULARY

    def gradient(logits: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(logits.square().sum(), [gpt.embed.tokens.weight])
        return found

    alone = gradient(torch.cat([gpt(ids[None])[0] for ids in ids_T.split(flat)]))
    torch.testing.assert_close(gradient(gpt(ids_T.view(2, 12), Pieces.of(flat, 2))), alone, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(gradient(gpt(ids_T[None], Packing.of(flat))), alone, atol=1e-3, rtol=1e-4)


def test_masks_are_small_and_of_the_kind_asked_for() -> None:
    pieces = Pieces.of([2, 1, 3], 2)
    sees = dense(causal & only_words(pieces), torch.arange(3), 3, batch=2)
    assert sees.shape == (2, 1, 3, 3)
    assert sees[0, 0].tolist() == [[True, False, False], [True, True, False], [False, False, True]]
    assert sees[1, 0].tolist() == torch.ones(3, 3).tril().bool().tolist()
    padded = dense(only_words(torch.tensor([1, 3])), torch.arange(3), 3, batch=2)
    assert padded.expand(2, 1, 3, 3)[:, 0, 0].tolist() == [[True, False, False], [True, True, True]]
    packing = Packing.of([2, 1])
    assert only_words(packing).packing == (packing, packing)
    assert only_words(pieces).packing is None


def test_positions() -> None:
    assert positions(None) is None
    assert positions(torch.tensor([3, 2])) is None
    assert positions(Packing.of([2, 3])).tolist() == [0, 1, 0, 1, 2]
    assert positions(Pieces.of([1, 2, 3], 2)).tolist() == [[0, 0, 1], [0, 1, 2]]


def test_the_longest_is_a_power_of_two_unless_it_is_known() -> None:
    assert [Packing.of([length]).longest for length in (1, 33, 64, 65)] == [32, 64, 64, 128]
    assert Packing.of([3, 5], longest=100).longest == 100


@pytest.mark.gpu
def test_packed_on_a_gpu_too(gpt: GPT) -> None:
    """In half precision, where a kernel for variable lengths serves."""
    flat = [5, 7, 12, 1, 3]
    ids_T = torch.arange(sum(flat), device="cuda") % VOCABULARY
    model = GPT(gpt.config, VOCABULARY).cuda().eval()
    model.load_state_dict(gpt.state_dict())
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        alone = torch.cat([model(ids[None])[0] for ids in ids_T.split(flat)]).float()
        packed = model(ids_T[None], to_device(Packing.of(flat), torch.device("cuda")))[0].float()
    assert (packed - alone).norm() < 0.02 * alone.norm()
