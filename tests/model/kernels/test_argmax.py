"""Picking the most probable token against the search's own candidates, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.candidates import Candidates, Constraints
from regard.model.kernels.decode_step import HAS_TRITON
from tests.model.kernels.interpreted import DEVICE, EXAMPLES, needs_triton

if HAS_TRITON:
    from regard.model.kernels import argmax as picking

pytestmark = needs_triton

LOGITS = st.one_of(st.floats(-60, 60, width=16), st.sampled_from([float("-inf"), 0.0, 1.0]))


@settings(max_examples=3 * EXAMPLES)
@given(
    rows=st.lists(st.lists(LOGITS, min_size=37, max_size=37), min_size=1, max_size=3),
    spoilt=st.sampled_from([None, float("nan"), float("inf")]),
    banned=st.sets(st.integers(0, 36), max_size=8),
    taken=st.integers(0, 3),
)
def test_picking(rows: list[list[float]], spoilt: float | None, banned: set[int], taken: int) -> None:
    logits = torch.tensor(rows, device=DEVICE)
    logits[0, :30] = -torch.inf if spoilt is None else logits[0, :30]
    logits[-1, 20] = logits[-1, 20] if spoilt is None else spoilt
    constraints, step_1 = Constraints(5, 2, tuple(banned)), torch.tensor([taken], device=DEVICE)
    expected = Candidates(constraints, DEVICE, fixed=True).best(logits, 1, step_1)
    banned_V = torch.zeros(37, dtype=torch.bool).index_fill(0, torch.tensor(sorted(banned), dtype=torch.long), True).to(DEVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picking, "BLOCK", 16)  # several tiles, the last not full
        found = picking.pick(logits, banned_V if banned else None, 5, 2, step_1)
    assert found.broken_B.equal(expected.broken_B)
    whole = ~expected.broken_B & (logits > -torch.inf).any(1)  # of an empty row no token means anything
    assert found.token_B1[whole].equal(expected.token_BK[whole])
    torch.testing.assert_close(found.logprob_B1[~expected.broken_B], expected.logprob_BK[~expected.broken_B])
    assert ((found.token_B1 >= 0) & (found.token_B1 < 37)).all()


def test_of_equals_and_of_nothing_the_first_is_picked() -> None:
    logits = torch.zeros(3, 20_000, device=DEVICE)
    logits[1] = -torch.inf
    logits[2, 11_000:] = 7
    found = picking.pick(logits, None, 0, 1, torch.zeros(1, dtype=torch.long, device=DEVICE))
    assert found.token_B1.tolist() == [[1], [0], [11_000]]
    assert found.logprob_B1[1].isneginf()
