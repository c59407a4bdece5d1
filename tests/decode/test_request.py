"""A request is checked when it is built, a recipe becomes the request it describes, and samples do not depend on the batch.

Batches by length: a partition, sorted, within budget, and none ends before the next sentence would overfill it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.rng import derive_seed
from regard.decode.config import BeamSettings, DecodeConfig, Sampling
from regard.decode.request import Hypothesis, SearchRequest, in_batches, length_divisor
from regard.decode.search import search
from tests.decode.searches import beam_search, greedy, sample
from tests.decode.toy import EOS, SOS, TableState, table

LOGITS = table(6, 15)
LIMITS = [7, 3, 9, 5]
STARTS = [10, 20, 30, 40]
WORDS = dict(sos=SOS, eos=EOS, limits=LIMITS, banned=(SOS,))


def reading() -> TableState:
    return TableState(LOGITS, STARTS)


def run(config: DecodeConfig, encoded: TableState, **options: Any) -> list[list[Hypothesis]]:
    return search(SearchRequest.from_config(config, encoded, **options))


def test_each_search_is_the_one_of_its_name() -> None:
    assert run(DecodeConfig(n_best=2), reading(), **WORDS) == beam_search(reading(), beam=4, alpha=0.6, n_best=2, **WORDS)
    assert run(DecodeConfig(search="greedy", minimum_length=2), reading(), **WORDS) == [
        [one] for one in greedy(reading(), minimum_length=2, **WORDS)
    ]
    config = DecodeConfig(search="sample", seed=7, temperature=1.5, top_k=8, top_p=0.9, min_p=0.01, repetition_penalty=1.2)
    choice = Sampling(temperature=1.5, top_k=8, top_p=0.9, min_p=0.01, repetition_penalty=1.2)
    seeds = [derive_seed(7, "sample", number, 0) for number in range(4)]
    assert run(config, reading(), **WORDS) == [[one] for one in sample(reading(), method=choice, seeds=seeds, **WORDS)]


def test_greedy_search_heeds_the_repetition_penalty() -> None:
    config = DecodeConfig(search="greedy", repetition_penalty=3.0)
    found = [one.ids for (one,) in run(config, reading(), **WORDS)]
    choice = Sampling(temperature=0, repetition_penalty=3.0)
    assert found == [one.ids for one in sample(reading(), method=choice, seeds=[0] * 4, **WORDS)]
    assert found != [one.ids for one in greedy(reading(), **WORDS)]


@pytest.mark.parametrize("samples", [1, 3])
def test_a_prompts_samples_do_not_depend_on_its_batch(samples: int) -> None:
    config = DecodeConfig(search="sample", seed=3, samples=samples, temperature=1.2)
    together = run(config, reading(), numbers=[100, 101, 102, 103], **WORDS)
    assert [len(found) for found in together] == [samples] * 4
    assert len({tuple(one.ids) for one in together[2]}) == samples
    for row in (2, 0, 3, 1):
        options = WORDS | dict(limits=[LIMITS[row]])
        assert run(config, TableState(LOGITS, [STARTS[row]]), numbers=[100 + row], **options) == [together[row]]
    assert run(config, reading(), numbers=[0, 1, 2, 3], **WORDS) != together
    assert run(config, reading(), **WORDS) == run(config, reading(), numbers=[0, 1, 2, 3], **WORDS)


def test_more_samples_begin_with_the_same_ones() -> None:
    few, many = (
        run(DecodeConfig(search="sample", samples=samples), reading(), numbers=[5, 6, 7, 8], **WORDS) for samples in (2, 5)
    )
    assert [found[:2] for found in many] == few


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (dict(limits=[3]), "1 limits"),
        (dict(limits=[3, 3, 0, 3]), "length is 0"),
        (dict(prompts=[[SOS]] * 3), "3 prompts"),
        (dict(prompts=[[SOS], [5, SOS], [7, 5], [SOS]]), "does not end with"),
        (dict(forced=[[2]]), "1 forced prefixes"),
        (dict(seeds=[1, 2, 3]), "3 seeds"),
        (dict(seeds=[1, 2, 3, 4], method=BeamSettings()), "draws nothing"),
        (dict(banned_sequences=[[2], []]), "no tokens"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused_when_it_is_built(mistake: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SearchRequest(encoded=reading(), **(WORDS | mistake))


def test_a_row_with_several_seeds_becomes_sentences_side_by_side() -> None:
    starts = torch.tensor([5, 6, 7, 8])
    prompts = [[2, 3, 5], [6], [4, 7], [9, 9, 9, 8]]
    forced = [[1], [], [2, 3], [4, 5, 6]]
    request = SearchRequest(encoded=reading(), sos=starts, eos=EOS, limits=LIMITS, seeds=range(8), prompts=prompts, forced=forced)
    assert request.copies == 2
    assert request.text_limits == [7, 7, 3, 3, 9, 9, 5, 5]
    assert request.first_S.tolist() == [5, 5, 6, 6, 7, 7, 8, 8]
    text = torch.zeros(9, 3, dtype=torch.long)  # room for nine sentences
    request.write_prompts(text)
    assert text[::2].tolist() == [[2, 3, 5], [-1, -1, 6], [-1, 4, 7], [9, 9, 8], [-1, -1, -1]]
    assert torch.equal(text[:8:2], text[1:8:2])
    tokens = torch.zeros(9, 2, dtype=torch.long)
    request.write_forced(tokens)
    assert tokens[1::2].tolist() == [[1, -1], [-1, -1], [2, 3], [4, 5]]


def test_equal_constraints_are_one_key_and_a_text_is_read_only_where_it_matters() -> None:
    plain, same = (SearchRequest(encoded=reading(), **WORDS) for _ in range(2))
    assert plain.constraints == same.constraints
    assert hash(plain.constraints) == hash(same.constraints)
    assert not plain.reads_text
    assert SearchRequest(encoded=reading(), banned_sequences=[[3, 4]], **WORDS).reads_text
    assert SearchRequest(encoded=reading(), method=Sampling(repetition_penalty=1.1), **WORDS).reads_text


def test_a_hypothesis_is_scored_by_its_length_with_the_end_token() -> None:
    one = Hypothesis.of([7, 8, EOS], [-1.0, -2.0, -0.5], finished=True, length_penalty=0.6)
    assert (one.ids, one.logprob, one.finished) == ([7, 8], -3.5, True)
    assert one.score == pytest.approx(-3.5 / ((5 + 3) / 6) ** 0.6)
    cut = Hypothesis.of([7, 8], [-1.0, -2.0], finished=False, length_penalty=0.0)
    assert (cut.ids, cut.score) == ([7, 8], -3.0)
    assert length_divisor(1, 5.0) == 1


@settings(max_examples=100)
@given(lengths=st.lists(st.integers(0, 60), max_size=80), budget=st.integers(1, 300))
def test_batches(lengths: list[int], budget: int) -> None:
    batches = list(in_batches(lengths, budget))
    flat = [index for batch in batches for index in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[i] for i in flat] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(1, lengths[batch[0]]) > budget


def test_equal_lengths_stay_in_order() -> None:
    assert list(in_batches([3, 5, 3, 5, 3], 10)) == [[1, 3], [0, 2, 4]]


def test_a_budget_of_nothing_is_told() -> None:
    with pytest.raises(UserError, match="budget"):
        next(in_batches([1], 0))
