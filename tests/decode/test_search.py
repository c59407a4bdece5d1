"""What a recipe asks for is what is done, and a prompt's samples are its own, in whatever batch it comes."""

from __future__ import annotations

import pytest

from regard.core.rng import derive_seed
from regard.decode.beam import beam_search
from regard.decode.config import DecodeConfig
from regard.decode.sampling_config import Choice
from regard.decode.search import greedy, sample, search
from tests.decode.toy import EOS, SOS, TableState, table

LOGITS = table(6, 15)
LIMITS = [7, 3, 9, 5]
STARTS = [10, 20, 30, 40]
WORDS = dict(sos=SOS, eos=EOS, maximum=LIMITS, banned=(SOS,))


def reading() -> TableState:
    return TableState(LOGITS, STARTS)


def test_each_search_is_the_one_of_its_name() -> None:
    assert search(DecodeConfig(n_best=2), reading(), 4, **WORDS) == beam_search(
        reading(), 4, beam=4, alpha=0.6, n_best=2, **WORDS
    )
    assert search(DecodeConfig(search="greedy", minimum_length=2), reading(), 4, **WORDS) == [
        [one] for one in greedy(reading(), 4, minimum=2, **WORDS)
    ]
    config = DecodeConfig(search="sample", seed=7, temperature=1.5, top_k=8, top_p=0.9, min_p=0.01, repetition_penalty=1.2)
    choice = Choice(temperature=1.5, top_k=8, top_p=0.9, min_p=0.01, repetition_penalty=1.2)
    seeds = [derive_seed(7, "sample", number, 0) for number in range(4)]
    assert search(config, reading(), 4, **WORDS) == [[one] for one in sample(reading(), 4, choice=choice, seeds=seeds, **WORDS)]


def test_greedy_search_heeds_the_repetition_penalty() -> None:
    config = DecodeConfig(search="greedy", repetition_penalty=3.0)
    found = [one.ids for (one,) in search(config, reading(), 4, **WORDS)]
    choice = Choice(temperature=0, repetition_penalty=3.0)
    assert found == [one.ids for one in sample(reading(), 4, choice=choice, seeds=[0] * 4, **WORDS)]
    assert found != [one.ids for one in greedy(reading(), 4, **WORDS)]


@pytest.mark.parametrize("samples", [1, 3])
def test_a_prompts_samples_do_not_depend_on_its_batch(samples: int) -> None:
    config = DecodeConfig(search="sample", seed=3, samples=samples, temperature=1.2)
    together = search(config, reading(), 4, numbers=[100, 101, 102, 103], **WORDS)
    assert [len(found) for found in together] == [samples] * 4
    assert len({tuple(one.ids) for one in together[2]}) == samples
    for row in (2, 0, 3, 1):
        options = WORDS | dict(maximum=[LIMITS[row]])
        assert search(config, TableState(LOGITS, [STARTS[row]]), 1, numbers=[100 + row], **options) == [together[row]]
    assert search(config, reading(), 4, numbers=[0, 1, 2, 3], **WORDS) != together
    assert search(config, reading(), 4, **WORDS) == search(config, reading(), 4, numbers=[0, 1, 2, 3], **WORDS)


def test_more_samples_begin_with_the_same_ones() -> None:
    few, many = (
        search(DecodeConfig(search="sample", samples=samples), reading(), 4, numbers=[5, 6, 7, 8], **WORDS) for samples in (2, 5)
    )
    assert [found[:2] for found in many] == few
