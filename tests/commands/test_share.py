"""The shares of all processes, one behind the other, are the whole input."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.commands.share import WHOLE, Share


@given(st.integers(0, 500), st.integers(1, 9), st.integers(1, 70))
def test_shares_follow_each_other_and_are_of_even_size(rows: int, size: int, chunk: int) -> None:
    shares = [list(Share(rank, size).starts(rows, chunk)) for rank in range(size)]
    assert [start for share in shares for start in share] == list(range(0, rows, chunk)) == list(WHOLE.starts(rows, chunk))
    counts = [len(share) for share in shares]
    assert max(counts) - min(counts) <= 1
    assert [list(Share(rank, size).of(-(-rows // chunk))) for rank in range(size)] == [
        [start // chunk for start in share] for share in shares
    ]
