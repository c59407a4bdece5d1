"""The loss in chunks is the loss of all logits at once, forwards and backwards."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.embedding import VocabularyHead
from regard.objectives import chunked_cross_entropy
from regard.objectives.chunked_cross_entropy import _ChunkedLoss, chunked_loss, chunks

TOKENS, WIDTH, WORDS = 37, 8, 21


def cross_entropy(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    return F.cross_entropy(logits_NV.float(), targets_N, ignore_index=0, reduction="sum", label_smoothing=0.1)


def disagreement(logits_2NV: Tensor, targets_N: Tensor) -> Tensor:
    p, q = logits_2NV.float().log_softmax(-1)
    return ((p.exp() - q.exp()) * (p - q)).sum() + cross_entropy(p, targets_N)


def made(bias: bool, before: bool) -> tuple[VocabularyHead, nn.Embedding]:
    torch.manual_seed(1)
    tied = nn.Embedding(WORDS, WIDTH)
    return VocabularyHead(WIDTH, WORDS, tied, bias=bias, before=nn.Linear(WIDTH, WIDTH) if before else None), tied


@pytest.mark.parametrize("budget", [1, 700, 2**30])
@pytest.mark.parametrize(("bias", "before"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("twice", [False, True])
def test_chunks_add_up(monkeypatch, budget, bias, before, twice):
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_BYTES, "cpu", budget)
    head, _ = made(bias, before)
    x = torch.randn(*((2,) if twice else ()), TOKENS, WIDTH, requires_grad=True)
    targets, loss = torch.randint(0, WORDS, (TOKENS,)), disagreement if twice else cross_entropy
    inputs = [x, *head.parameters()]
    expected, found = loss(head(x), targets) * 0.3, chunked_loss(loss, head, x, targets) * 0.3
    torch.testing.assert_close(found, expected)
    for a, b in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs)):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_a_tied_matrix_learns_from_both_ends():
    head, tied = made(bias=False, before=False)
    targets = torch.randint(0, WORDS, (TOKENS,))
    grads = []
    for total in (
        lambda: chunked_loss(cross_entropy, head, tied(targets), targets),
        lambda: cross_entropy(head(tied(targets)), targets),
    ):
        grads.append(torch.autograd.grad(total(), tied.weight)[0])
    torch.testing.assert_close(*grads, atol=1e-6, rtol=1e-5)


def test_nothing_is_kept_where_nothing_is_learned():
    head, _ = made(bias=True, before=False)
    with torch.no_grad():
        total = chunked_loss(cross_entropy, head, torch.randn(TOKENS, WIDTH), torch.randint(0, WORDS, (TOKENS,)))
    assert not total.requires_grad


def plain(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    return F.cross_entropy(logits_NV.float(), targets_N, reduction="sum")


@pytest.mark.parametrize("bias", [False, True])
def test_words_that_fill_the_matrix_are_nobodys(bias):
    head, _ = made(bias, before=False)
    x, targets = torch.randn(TOKENS, WIDTH, requires_grad=True), torch.randint(0, WORDS, (TOKENS,))
    inputs = [x, *head.parameters()]
    expected = plain(head(x), targets)
    found = _ChunkedLoss.apply(plain, 11, True, x, head.project.weight, head.project.bias, targets)
    torch.testing.assert_close(found, expected)
    for a, b in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs)):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("budget", [1, 1000, 2**30])
def test_every_token_is_in_one_chunk(monkeypatch, budget):
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_BYTES, "cpu", budget)
    cut = chunks(torch.zeros(TOKENS, WIDTH), WORDS)
    assert [n for begin, end in cut for n in range(begin, end)] == list(range(TOKENS))
    assert max(end - begin for begin, end in cut) * WORDS * 4 <= max(budget, WORDS * 4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("words", [WORDS, 128])
def test_on_a_gpu_in_half_precision(monkeypatch, words):
    """The matrix is filled up to a multiple of 64 words; nobody must see the fillers."""
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_BYTES, "cuda", 64 * 128 * 2)
    head = VocabularyHead(WIDTH, words, bias=True).cuda()
    x = torch.randn(200, WIDTH, device="cuda", requires_grad=True)
    targets = torch.randint(0, words, (200,), device="cuda")
    expected = torch.autograd.grad(plain(head(x), targets), [x, *head.parameters()])
    found = torch.autograd.grad(chunked_loss(plain, head, x.bfloat16(), targets, fill=True), [x, *head.parameters()])
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, atol=0.05 * float(b.abs().max()), rtol=0.05)
