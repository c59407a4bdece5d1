"""Memory by counting: rows by doubling, slots in strides, and what was taken stays taken until the batch is empty."""

from __future__ import annotations

import torch

from regard.serve.memory import CANDIDATES, SCORES, Need, Reserved, Sizes, free_memory

SIZES = Sizes(lambda slots, places: 10 * slots + places, lanes=2, vocabulary=100)


def test_a_batch_takes_its_longest_row_for_each_row_that_its_buffers_have() -> None:
    scores = 2 * (100 * SCORES + 5 * 2 * CANDIDATES)
    assert SIZES.bytes(Need(3, 17, 7, 5)) == 4 * (10 * 32 + 7 + scores)
    assert SIZES.bytes(Need(1, 0, 0, 0)) == 160 + 2 * 100 * SCORES


def test_what_joins_raises_the_largest_row_and_the_rows() -> None:
    reserved = Reserved(SIZES)
    assert reserved.bytes == 0
    reserved.largest = reserved.with_more(Need(2, 40, 5, 9), 0)
    reserved.largest = reserved.with_more(Need(1, 8, 60, 3), 2)
    assert reserved.largest == Need(3, 40, 60, 9)
    assert reserved.with_more(Need(1, 1, 1, 1), 1) == Need(3, 40, 60, 9)  # two have left, but their buffers are there


def test_some_memory_is_free() -> None:
    assert free_memory(torch.device("cpu")) > 1 << 20
