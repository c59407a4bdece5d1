"""Counted randomness: the same place gives the same draw in any process, and different places share nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from regard.core.rng import derive_seed, generator, seed_dropout, uniform

SEEDS = st.integers(-(2**70), 2**70)
NUMBERS = st.lists(st.integers(0, 10**9), max_size=4)


def test_numbers_are_what_they_have_always_been() -> None:
    """Written out by hand from the definition: changing it would change every run that was ever begun."""
    digest = hashlib.blake2b(b"1/shuffle/0", digest_size=8).hexdigest()
    assert derive_seed(1, "shuffle", 0) == int(digest, 16) // 2 == 4026945476534407487


@given(SEEDS, st.sampled_from(["shuffle", "dropout"]), NUMBERS)
@settings(max_examples=60)
def test_a_number_fits_every_generator(seed: int, stream: str, numbers: list[int]) -> None:
    number = derive_seed(seed, stream, *numbers)
    assert number == derive_seed(seed, stream, *numbers)
    assert 0 <= number < 2**63


def test_places_do_not_collide() -> None:
    places: list[tuple[int, ...]] = [(), (1,), (11,), (1, 1), (1, 11), (11, 1)]
    numbers = [derive_seed(seed, stream, *place) for seed in range(4) for stream in "ab" for place in places]
    assert len(set(numbers)) == 4 * 2 * 6


def test_a_draw_does_not_depend_on_earlier_ones() -> None:
    generator(3, "shuffle", 6).random(1000)
    np.random.seed(0)
    first = generator(3, "shuffle", 7).random(5)
    np.random.random(100)
    assert np.array_equal(first, generator(3, "shuffle", 7).random(5))
    assert not np.array_equal(first, generator(3, "shuffle", 8).random(5))


def test_draws_are_the_same_in_another_process() -> None:
    """Python's own hash is salted anew in every process; ours must not be."""
    code = "from regard.core.rng import derive_seed; print(derive_seed(5, 'dropout', 1, 2, 3))"
    for salt in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": salt, "OMP_NUM_THREADS": "1"}
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        assert int(shown.stdout) == derive_seed(5, "dropout", 1, 2, 3)


def test_dropout_derives_from_seed_step_micro_batch_and_rank() -> None:
    def mask(*place: int) -> torch.Tensor:
        torch.rand(7)  # whatever was drawn before
        seed_dropout(*place)
        return F.dropout(torch.ones(64), 0.5)

    kept = mask(1, 2, 3, 0)
    assert torch.equal(kept, mask(1, 2, 3, 0))
    for other in [(2, 2, 3, 0), (1, 3, 3, 0), (1, 2, 4, 0), (1, 2, 3, 1)]:
        assert not torch.equal(kept, mask(*other))


def test_many_draws_at_once_are_those_of_splitmix() -> None:
    """Beside its definition in plain whole numbers (Steele et al. 2014)."""
    numbers = np.array([0, 1, 7, 10**6, 2**62])
    found = uniform(5, "mask", numbers)
    for number, value in zip(numbers.tolist(), found):
        z = (derive_seed(5, "mask") + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        assert value == ((z ^ (z >> 31)) >> 11) / 2**53


def test_many_draws_are_even() -> None:
    found = np.sort(uniform(1, "mask", np.arange(100_000)))
    assert found[0] >= 0
    assert found[-1] < 1
    assert np.abs(found - (np.arange(100_000) + 0.5) / 100_000).max() < 1.95 / 100_000**0.5  # Kolmogorov and Smirnov, 0.1%
