"""Random blocks and BigBird: each block picks others, each once, by its seed alone, and never changes its mind."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.model.visibility import causal
from regard.model.visibility.bigbird import BigBirdFixed, Random
from tests.model.visibility.pattern_cases import few, seen


def test_bigbird_as_transformers_answers_counts_its_first_block_again():
    counts = seen(BigBirdFixed(2, 1), 20)[0]
    assert counts[0].tolist() == counts[19].tolist() == [1] * 20  # the first and the last block see everybody once
    assert counts[8].tolist() == [2] * 2 + [0] * 4 + [1] * 6 + [0] * 6 + [1] * 2
    assert seen(BigBirdFixed(2, 1), 14)[0].eq(1).all()  # too short for two windows of chance
    assert not seen(BigBirdFixed(2, 1), 15)[0].eq(1).all()
    assert seen(causal & BigBirdFixed(2, 1), 20)[0][8].tolist() == [1] * 2 + [0] * 4 + [1] * 3 + [0] * 11


@few
@given(st.integers(1, 4), st.integers(0, 99), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(1, 40))
def test_chance_picks_others_each_once(count, seed, near, first, last, blocks):
    picked = seen(Random(count, seed, 2, near, first, last), 2 * blocks)[0]
    assert torch.equal(picked, picked[::2, ::2].repeat_interleave(2, 0).repeat_interleave(2, 1))
    for block, row in enumerate(picked[::2, ::2]):
        chosen = set(row.nonzero().flatten().tolist())
        allowed = {n for n in range(first, blocks - last) if abs(n - block) > near}
        assert chosen <= allowed
        assert len(chosen) == min(count, len(allowed))


def test_chance_depends_on_the_seed_and_nothing_else():
    a, b = (seen(Random(2, seed, 1), 64)[0] for seed in (0, 1))
    assert torch.equal(a, seen(Random(2, 0, 1), 64)[0])
    assert (a & b).sum() < 20
    every = torch.stack([seen(Random(2, seed, 1), 64)[0] for seed in range(200)]).float().mean(0)
    off = every[~torch.eye(64, dtype=torch.bool)]
    assert (off - 2 / 63).abs().max() < 0.1  # each is picked about as often as any other
    assert off.std() < 0.02


def test_chance_that_may_not_look_ahead_never_changes_its_mind():
    long = seen(causal & Random(3, 5, 2), 60)[0]
    for length in (1, 2, 9, 37):
        assert torch.equal(seen(causal & Random(3, 5, 2), length)[0], long[:length, :length])
    row = torch.tensor([41])
    step = (causal & Random(3, 5, 2)).sees(row * 0, row * 0, row[:, None], torch.arange(60))
    assert torch.equal(step[0], long[41])
