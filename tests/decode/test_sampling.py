"""Draws against published outputs and uniformity; filters against Hugging Face's; the inverse against exact arithmetic."""

from __future__ import annotations

import bisect
from fractions import Fraction
from itertools import accumulate

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.decode.config import Sampling
from regard.decode.sampling import draw, penalize_repetition, splitmix, token_weights, uniform
from tests.decode.statistics import chi_square

SEEDS = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("seed", "outputs"),
    [  # as other implementations of SplitMix64 print them
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]),
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]),
    ],
)
def test_draws_are_those_of_splitmix(seed: int, outputs: list[int]) -> None:
    bits = splitmix(torch.tensor(seed), torch.arange(len(outputs)))
    assert [number % 2**64 for number in bits.tolist()] == outputs
    drawn = uniform(torch.tensor(seed), torch.arange(len(outputs)))
    assert drawn.tolist() == [((number >> 12) + 0.5) / 2**52 for number in outputs]


@pytest.mark.parametrize("seeds", [range(400), range(-(2**63), -(2**63) + 400), range(0, 400 << 40, 1 << 40)], ids=str)
def test_draws_are_uniform_over_steps_over_seeds_and_in_pairs(seeds: range) -> None:
    drawn = uniform(torch.tensor(list(seeds))[:, None], torch.arange(400))
    assert drawn.dtype == torch.float64
    assert 0 < drawn.min() < 1e-4 < 1 - 1e-4 < drawn.max() < 1
    assert drawn.unique().numel() == drawn.numel()
    level = torch.full((256,), 1 / 256)
    bins = (drawn * 16).long()
    for first, second in ((bins[:, :-1], bins[:, 1:]), (bins[:-1], bins[1:])):  # neighbours in a text, neighbours in a batch
        assert chi_square((first * 16 + second).flatten().bincount(minlength=256), level) > 1e-4
    for shift in (8, 20, 36):  # of a draw, not only the leading bits
        low = (drawn * (1 << (shift + 8))).long() % 256
        assert chi_square(low.flatten().bincount(minlength=256), level) > 1e-4


def logits(seed: int, vocabulary: int, spread: float, levels: int) -> Tensor:
    """Levels: so few distinct values a unit that many tie."""
    drawn = torch.randn(4, vocabulary, generator=torch.Generator().manual_seed(seed)) * spread
    return (drawn * levels).round() / levels if levels else drawn


def hugging_face(logits_SV: Tensor, text_SN: Tensor, choice: Sampling) -> Tensor:
    import transformers.generation.logits_process as process

    steps = [
        process.RepetitionPenaltyLogitsProcessor(choice.repetition_penalty),
        process.TemperatureLogitsWarper(choice.temperature),
    ]
    steps += [process.TopKLogitsWarper(choice.top_k)] if choice.top_k else []
    steps += [process.TopPLogitsWarper(choice.top_p)] if choice.top_p < 1 else []
    steps += [process.MinPLogitsWarper(choice.min_p)] if choice.min_p else []
    for step in steps:
        logits_SV = step(text_SN, logits_SV)
    return logits_SV


def on_no_edge(scores_SV: Tensor, choice: Sampling) -> bool:
    """Does float32 rounding decide nothing? Sums and fractions are then not too near to where they would change sides."""
    scores_SV = scores_SV.double() / choice.temperature
    if choice.top_k:
        least_S1 = scores_SV.topk(min(choice.top_k, scores_SV.shape[1])).values[:, -1:]
        scores_SV = scores_SV.masked_fill(scores_SV < least_S1, -torch.inf)
    upto_SV = scores_SV.sort().values.softmax(1).cumsum(1)
    relative_SV = (scores_SV - scores_SV.amax(1, keepdim=True)).exp()
    near_p = choice.top_p < 1 and ((upto_SV - (1 - choice.top_p)).abs() < 1e-5).any()
    return not near_p and not (choice.min_p > 0 and ((relative_SV - choice.min_p).abs() < 1e-5).any())


CHOICES = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 1.9]),
    top_k=st.sampled_from([0, 1, 3, 10, 1000]),
    top_p=st.sampled_from([0.05, 0.35, 0.9, 0.97, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    repetition_penalty=st.sampled_from([0.8, 1.0, 1.3, 2.0]),
)


@settings(max_examples=200)
@given(
    seed=SEEDS,
    vocabulary=st.integers(1, 300),
    spread=st.sampled_from([0.3, 2.0]),
    levels=st.sampled_from([0, 0, 3]),
    choice=CHOICES,
)
def test_filters_keep_what_hugging_face_keeps(seed: int, vocabulary: int, spread: float, levels: int, choice: Sampling) -> None:
    logits_SV = logits(seed, vocabulary, spread, levels)
    text_SN = torch.randint(vocabulary, (4, 9), generator=torch.Generator().manual_seed(seed + 1))
    expected_SV = hugging_face(logits_SV, text_SN, choice)
    scores_SV = penalize_repetition(logits_SV, text_SN, choice.repetition_penalty)
    assume(on_no_edge(scores_SV, choice))
    weight_SV = token_weights(scores_SV.log_softmax(1) if choice.repetition_penalty == 1 else scores_SV, choice, fixed=True)
    likely_SV = (expected_SV - expected_SV.amax(1, keepdim=True)).exp() * 2.0**40
    assume(not ((likely_SV > 0.99) & (likely_SV < 1.01)).any())
    kept_SV = likely_SV > 1  # what is less likely than that weighs nothing
    if not levels:
        assert torch.equal(weight_SV > 0, kept_SV)
    elif (
        choice.min_p < 1
    ):  # of tokens that tie where the nucleus ends, somebody's sort decides; shifting may part ties of fractions
        assert torch.equal((weight_SV > 0).sum(1), kept_SV.sum(1))
    probability_SV = weight_SV.double() / weight_SV.sum(1, keepdim=True)
    if torch.equal(weight_SV > 0, kept_SV):
        torch.testing.assert_close(probability_SV, expected_SV.double().softmax(1), rtol=1e-4, atol=1e-7)


@settings(max_examples=60)
@given(
    seed=SEEDS,
    vocabulary=st.integers(1000, 3000),
    spread=st.sampled_from([0.1, 1.0, 3.0]),
    levels=st.sampled_from([0, 1, 3]),
    top_p=st.floats(0.01, 0.99),
)
def test_a_small_nucleus_is_found_without_sorting_all(
    seed: int, vocabulary: int, spread: float, levels: int, top_p: float
) -> None:
    logits_SV, choice = logits(seed, vocabulary, spread, levels), Sampling(top_p=top_p)
    assert torch.equal(token_weights(logits_SV, choice, fixed=False), token_weights(logits_SV, choice, fixed=True))


def test_penalties_are_hugging_faces_to_the_bit() -> None:
    import transformers.generation.logits_process as process

    logits_SV = logits(0, 50, 3.0, 0)
    text_SN = torch.randint(50, (4, 30), generator=torch.Generator().manual_seed(1))
    assert torch.equal(
        penalize_repetition(logits_SV, text_SN, 1.3), process.RepetitionPenaltyLogitsProcessor(1.3)(text_SN, logits_SV)
    )


def test_of_tokens_that_tie_top_k_keeps_all_and_top_p_the_later() -> None:
    level = torch.tensor([[1.0, 1.0, 0.0, 1.0, 1.0]])
    assert (token_weights(level, Sampling(top_k=2), fixed=True) > 0).tolist() == [[True, True, False, True, True]]
    assert (token_weights(level[:, [0, 1, 3, 4]], Sampling(top_p=0.5), fixed=True) > 0).tolist() == [[False, False, True, True]]


def test_the_likeliest_always_stays() -> None:
    level = torch.tensor([[1.0, 3.0, 2.0]])
    for narrow in (Sampling(top_p=1e-20), Sampling(min_p=1.0), Sampling(top_k=1)):
        assert (token_weights(level, narrow, fixed=True) > 0).tolist() == [[False, True, False]]


@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 1e6])
def test_extreme_temperatures_stay_numbers(temperature: float) -> None:
    weight_SV = token_weights(
        torch.tensor([[3e38, -3e38, -torch.inf], [0.0, -1e-3, -1e4]]), Sampling(temperature=temperature), fixed=True
    )
    assert (weight_SV >= 0).all()
    assert (weight_SV[:, 0] == 2**40).all()


@settings(max_examples=100)
@given(
    weight=st.lists(st.one_of(st.just(0), st.integers(0, 2**40)), min_size=1, max_size=30),
    part=st.one_of(st.floats(1e-15, 1 - 1e-15), st.sampled_from([2**-53, 1 - 2**-53, 0.5])),
)
def test_a_draw_is_the_inverse_of_the_sums_in_exact_arithmetic(weight: list[int], part: float) -> None:
    token = draw(torch.tensor([weight]), torch.tensor([[part]], dtype=torch.float64)).item()
    upto = list(accumulate(weight))
    if upto[-1] == 0:
        assert token == 0
        return
    assert weight[token] > 0
    exact = Fraction(part) * upto[-1]
    expected = bisect.bisect_right(upto, int(exact))
    assert token == expected or min(abs(exact - edge) for edge in upto) <= 1  # where float64 rounds to the other side of an edge


def test_nothing_or_nonsense_still_draws_some_token() -> None:
    for bad in (-torch.inf, torch.nan, torch.inf):
        weight_SV = token_weights(torch.tensor([[bad] * 5]), Sampling(top_k=2, top_p=0.5, min_p=0.1), fixed=True)
        assert 0 <= draw(weight_SV, torch.tensor([[0.7]], dtype=torch.float64)).item() < 5
