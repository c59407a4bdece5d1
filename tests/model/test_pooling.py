"""One vector a text: padded or packed it is the same, and what is no word does not count.

Pooling by a learned query: the formula of the paper, whatever stands in the padding; and the seam sees it.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.core.packing import Packing, Pieces
from regard.model.init import initialise
from regard.model.layers import BatchNorm
from regard.model.pooling import LearnedQuery, Summary, compared, mean_tokens
from regard.model.probe import attentions, probe, taken_apart

lengths = st.lists(st.integers(1, 7), min_size=1, max_size=5)


def laid(sizes: list[int]) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor, Packing]:
    """The same texts one by one, in padded rows (with garbage behind them), and packed (with filler behind them)."""
    torch.manual_seed(sum(sizes))
    texts = [torch.randn(size, 6) for size in sizes]
    padded = torch.full((len(sizes), max(sizes), 6), 1e3)
    for row, text in zip(padded, texts):
        row[: len(text)] = text
    packing = Packing.filled(torch.tensor(sizes).numpy())
    packed = torch.cat([*texts, torch.full((packing.tokens - sum(sizes), 6), 1e3)])[None]
    return texts, padded, torch.tensor(sizes), packed, packing


@settings(max_examples=20)
@given(lengths)
def test_the_mean_is_of_the_words_alone(sizes: list[int]) -> None:
    texts, padded, sizes_N, packed, packing = laid(sizes)
    expected = torch.stack([text.mean(0) for text in texts])
    torch.testing.assert_close(mean_tokens(padded, sizes_N), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mean_tokens(packed, packing)[: len(sizes)], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_packed_texts_have_the_summary_and_the_gradient_of_padded_ones(pooling: str, apart: bool, norm: str) -> None:
    texts, padded, sizes_N, packed, packing = laid([3, 1, 5, 2])
    torch.manual_seed(0)
    summary = Summary(6, pooling, apart, norm)  # type: ignore[arg-type]
    padded, packed = padded.clone().requires_grad_(), packed.clone().requires_grad_()
    a_ND, b_ND = summary(padded, sizes_N), summary(packed, packing)
    count = 2 if apart else 4
    assert a_ND.shape == (count, 6)
    torch.testing.assert_close(b_ND[:count], a_ND, atol=1e-5, rtol=1e-5)
    weights = torch.randn(count, 6)
    a, b = (torch.autograd.grad((x[:count] * weights).sum(), of)[0] for x, of in ((a_ND, padded), (b_ND, packed)))
    kept = torch.cat([a[n, : len(text)] for n, text in enumerate(texts)])
    torch.testing.assert_close(b[0, : len(kept)], kept, atol=1e-5, rtol=1e-5)
    assert not b[0, len(kept) :].any()


def test_a_batch_is_normalised_as_torch_does_it_and_what_does_not_count_is_only_measured() -> None:
    ours, theirs = BatchNorm(5), nn.BatchNorm1d(5, affine=False, momentum=1 - BatchNorm.KEPT)
    for step in range(4):
        torch.manual_seed(step)
        x_ND = (3 + torch.randn(7, 5) * torch.arange(1, 6)).requires_grad_()
        with_more = torch.cat([x_ND, torch.full((2, 5), 1e3)])
        found, expected = ours(with_more, torch.arange(9) < 7), theirs(x_ND)
        torch.testing.assert_close(found[:7], expected, atol=1e-5, rtol=1e-5)
        weights = torch.randn(7, 5)
        gradients = [torch.autograd.grad((y[:7] * weights).sum(), x_ND)[0] for y in (found, expected)]
        torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.mean_D, theirs.running_mean)
    start = BatchNorm.KEPT**4  # of the first variance, 1, is left; of what was seen, torch counts n / (n - 1)
    torch.testing.assert_close((ours.variance_D - start) * 7 / 6 + start, theirs.running_var)
    kept = ours.mean_D.clone()
    alone, both = (ours.eval()(x_ND[:count], torch.ones(count, dtype=torch.bool)) for count in (1, 2))
    assert torch.equal(alone[0], both[0])  # who else is asked for changes nothing
    assert torch.equal(ours.mean_D, kept)


def test_small_differences_are_kept_in_half_precision() -> None:
    torch.manual_seed(0)
    exact = 8 + 0.03 * torch.randn(3, 400, 6)  # around 8, half precision knows steps of 1/32
    summary = Summary(6, "mean", norm="batch")
    with torch.autocast("cpu", torch.bfloat16):
        found = summary(exact.bfloat16(), torch.tensor([400, 300, 200]))
    expected = summary(exact.bfloat16().float(), torch.tensor([400, 300, 200]))
    torch.testing.assert_close(found.float(), expected, atol=0.03, rtol=0.03)


def test_a_batch_of_filler_alone_is_numbers() -> None:
    norm = BatchNorm(3)
    assert norm(torch.randn(4, 3), torch.zeros(4, dtype=torch.bool)).isfinite().all()
    assert norm(torch.randn(1, 3), torch.ones(1, dtype=torch.bool)).abs().max() == 0  # of one text nothing is left


def test_units_that_are_off_for_every_text_can_learn() -> None:
    summary = Summary(6, "mean")
    nn.init.constant_(summary.project.bias, -3.0)
    nn.init.normal_(summary.project.weight, std=0.01)
    _, padded, sizes_N, _, _ = laid([3, 1, 5, 2])
    (gradient,) = torch.autograd.grad(summary(padded, sizes_N).sum(), summary.project.weight)
    assert gradient.abs().amax(1).gt(1e-6).all()


def test_two_texts_are_compared_as_the_paper_does() -> None:
    x = torch.randn(6, 4)
    for n, row in enumerate(compared(x)):
        one, other = x[2 * n], x[2 * n + 1]
        assert row.equal(torch.cat([one, other, one * other, one - other]))


def test_pieces_are_refused() -> None:
    with pytest.raises(TypeError, match="one a row"):
        mean_tokens(torch.zeros(1, 4, 2), Pieces.of([2, 2], 1))


LENGTHS = [5, 1, 3]


def built() -> tuple[LearnedQuery, Tensor, Tensor]:
    pool = LearnedQuery(8, name="words.query")
    initialise(pool, 3)
    torch.manual_seed(0)
    return pool, torch.randn(3, 5, 8, requires_grad=True), torch.tensor(LENGTHS)


def plainly(pool: LearnedQuery, x_MD: Tensor) -> tuple[Tensor, Tensor]:
    """Equations 5 to 7 of Yang et al. 2016, of one row."""
    u_MD = torch.tanh(x_MD @ pool.keys.weight.T + pool.keys.bias)
    odds_M = torch.exp(u_MD @ pool.query_D)
    weights_M = odds_M / odds_M.sum()
    return weights_M @ x_MD, weights_M


def test_values_weights_and_gradients_are_those_of_the_paper() -> None:
    pool, x, lengths = built()
    parameters = [*pool.parameters(), x]
    with probe(pool) as seen:
        found = pool(x, lengths)
    rows = [plainly(pool, x[n, :length]) for n, length in enumerate(LENGTHS)]
    expected = torch.stack([vector for vector, _ in rows])
    torch.testing.assert_close(found, expected)
    for n, (_, weights) in enumerate(rows):
        shown = seen["words.query"].weights()[n, 0, 0]
        torch.testing.assert_close(shown[: LENGTHS[n]], weights)
        assert not shown[LENGTHS[n] :].any()
    weights = torch.randn_like(found)
    for a, b in zip(*(torch.autograd.grad((x * weights).sum(), parameters) for x in (found, expected))):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_padding_is_not_looked_at() -> None:
    pool, x, lengths = built()
    garbage = x.detach().clone()
    for row, length in zip(garbage, LENGTHS):
        row[length:] = 1e4
    torch.testing.assert_close(pool(garbage, lengths), pool(x, lengths))


@pytest.mark.parametrize("rows", [3, 6])
def test_a_gate_for_each_text_is_that_of_all_its_sentences(rows: int) -> None:
    pool, x, lengths = built()
    x, lengths = x.repeat(rows // 3, 1, 1), lengths.repeat(rows // 3)
    assert list(attentions(pool)) == ["words.query"]
    gate = torch.tensor([[1.0], [0.0], [0.5]])
    with probe(pool, {"words.query": gate}) as looking, taken_apart(looking, rows // 3):
        gated = pool(x, lengths)
    torch.testing.assert_close(gated, pool(x, lengths) * gate.repeat_interleave(rows // 3, 0))
