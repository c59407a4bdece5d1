"""Patterns of every kind for property tests, what they show of every pair, and the rules of the papers by hand."""

import torch
from hypothesis import settings
from hypothesis import strategies as st

from regard.model.visibility import Visibility, causal, full, padding, window
from regard.model.visibility.bigbird import BigBirdFixed, Random
from regard.model.visibility.patterns import Block, Global, Last, Local1D, Local2D, Strided, Summary

CPU = torch.device("cpu")
few = settings(max_examples=40)


def seen(pattern: Visibility, length: int, batch: int = 1) -> torch.Tensor:
    """sees_BLM of every pair, as it is when a model looks."""
    view = pattern.over(length, length, batch=batch, device=CPU)
    return view.rows(torch.arange(length)).expand(batch, 1, length, length)[:, 0]


RULES = {
    "block(3)": lambda i, j, n: i // 3 == j // 3,
    "block(3, 2)": lambda i, j, n: abs(i // 3 - j // 3) <= 2,
    "strided(4)": lambda i, j, n: (i - j) % 4 == 0,
    "strided(2, 3)": lambda i, j, n: (i // 3) % 2 == (j // 3) % 2,
    "summary(5, 2)": lambda i, j, n: j % 5 in (3, 4),
    "global(2)": lambda i, j, n: i < 2 or j < 2,
    "last(4)": lambda i, j, n: (n - 1) // 4 in (i // 4, j // 4),
    "last(4, 2)": lambda i, j, n: bool({(n - 1) // 4, (n - 1) // 4 - 1} & {i // 4, j // 4}),
    "longformer(6, 2)": lambda i, j, n: abs(i - j) <= 3 or i < 2 or j < 2,
    "causal & sparse-transformer-strided(4)": lambda i, j, n: j <= i and (i - j <= 4 or (i - j) % 4 == 0),
    "causal & sparse-transformer(4, 1)": lambda i, j, n: j <= i and (i // 4 == j // 4 or j % 4 == 3),
    "sparse-transformer-strided(6, 3)": lambda i, j, n: abs(i // 3 - j // 3) <= 2 or (i // 3 - j // 3) % 2 == 0,
    "image-local-1d(4, 3)": lambda i, j, n: j in range(i // 4 * 4 - 3, i // 4 * 4 + 4 + 3),
    "image-local-2d(5, 2, 3, 1, 1)": lambda i, j, n: (
        j // 5 in range(i // 5 // 2 * 2 - 1, i // 5 // 2 * 2 + 3) and j % 5 in range(i % 5 // 3 * 3 - 1, i % 5 // 3 * 3 + 4)
    ),
    "bigbird(3, 3, 2, 0)": lambda i, j, n: abs(i // 3 - j // 3) <= 1 or bool({0, (n - 1) // 3} & {i // 3, j // 3}),
}


numbers = st.integers(1, 9)
plain = st.one_of(
    st.builds(Block, numbers, st.integers(0, 2)),
    st.builds(Strided, numbers, numbers),
    st.builds(lambda period, count: Summary(period + count, count), numbers, numbers),
    st.builds(Global, numbers),
    st.builds(Last, numbers, st.integers(1, 2)),
    st.builds(Random, st.integers(1, 3), numbers, numbers, st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    st.builds(Local1D, numbers, st.integers(0, 9)),
    st.builds(Local2D, numbers, numbers, numbers, st.integers(0, 3), st.integers(0, 3)),
    st.builds(window, st.integers(0, 12)),
    st.builds(BigBirdFixed, numbers, st.integers(0, 1)),
    st.sampled_from([causal, full]),
)


patterns = st.recursive(
    plain, lambda p: st.one_of(st.builds(lambda a, b: a & b, p, p), st.builds(lambda a, b: a | b, p, p)), max_leaves=4
)


def over_three(pattern: Visibility, memory: int, padded: bool) -> Visibility:
    """Told where three sequences end."""
    if padded:
        pattern = pattern & padding(torch.tensor([memory, 1, (memory + 1) // 2]))
    return pattern.with_length(memory if pattern.lengths_B is None else pattern.lengths_B)
