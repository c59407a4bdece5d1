"""Randomness that is counted, not carried: every draw derives from (seed, stream, numbers), never from what was drawn before.

A run killed at step 1,234 and started again draws for step 1,235 exactly what it would have drawn, with no generator to save.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch


def derive_seed(seed: int, stream: str, *numbers: int) -> int:
    """Return a 63-bit seed derived from a seed, the name of a stream and the numbers of a place in it."""
    key = f"{seed}/{stream}/{'/'.join(map(str, numbers))}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") >> 1


def generator(seed: int, stream: str, *numbers: int) -> np.random.Generator:
    return np.random.default_rng(derive_seed(seed, stream, *numbers))


def seed_dropout(seed: int, step: int, micro: int, rank: int) -> None:
    """Seed torch's own generator, from which dropout draws, for one micro-batch."""
    torch.manual_seed(derive_seed(seed, "dropout", step, micro, rank))


def uniform(seed: int, stream: str, numbers: np.ndarray) -> np.ndarray:
    """Return a number in [0, 1) for each place of a stream: output `number` of SplitMix64 (Steele et al. 2014)."""
    z = np.uint64(derive_seed(seed, stream)) + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
