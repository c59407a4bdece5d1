"""Batches for decoding: texts of similar length together, longest first, with little padding, and memory fails early or never."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.core.errors import UserError


def in_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield indices into `lengths`, in batches whose padded size (count x longest) stays within `budget`.

    No batch is empty: a text longer than the budget gets a batch of its own.
    """
    if budget < 1:
        raise UserError(f"The token budget of a batch is {budget}; give 1 or more, say 4096.")
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):  # stable: equal lengths stay in order
        if batch and (len(batch) + 1) * max(lengths[batch[0]], 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
