"""Randomness that is counted, not carried: every draw derives from (seed, stream, numbers), never from what was drawn before.

A run killed at step 1,234 and started again draws for step 1,235 exactly what it would have drawn, with no generator to save.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch


def counted(seed: int, stream: str, *numbers: int) -> int:
    """A 63-bit number for this place in this stream of this seed."""
    key = f"{seed}/{stream}/{'/'.join(map(str, numbers))}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") >> 1


def generator(seed: int, stream: str, *numbers: int) -> np.random.Generator:
    return np.random.default_rng(counted(seed, stream, *numbers))


def seed_dropout(seed: int, step: int, micro: int, rank: int) -> None:
    """Dropout draws from torch's own generator, so that generator is set anew for every micro-batch."""
    torch.manual_seed(counted(seed, "dropout", step, micro, rank))
