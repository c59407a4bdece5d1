"""The state of sentences that join and leave: memory that is used again, and states that cannot be shared."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.compact_cache import CompactInput
from regard.decode.running_state import enlarged, joined, running_state
from regard.model.state.protocol import RowCompaction
from tests.decode.models import language_model, padded, prompts


def fresh(texts: list[list[int]], limits: int = 5) -> Any:
    encoded = language_model().start(*padded(texts))
    state = encoded.make_state(len(texts), 1, limits, fixed=False)
    state.load(encoded, [limits] * len(texts))
    return state


def test_rows_are_cleared_before_they_are_used_again() -> None:
    buffer = torch.full((2, 3), torch.nan)
    buffer = joined(buffer, torch.ones(1, 2), 1)
    assert buffer[1].tolist() == [1, 1, 0]
    assert joined(buffer, torch.ones(2, 4), 1).shape == (4, 4)  # rows by doubling
    assert enlarged(buffer, 0, 2) is buffer
    assert enlarged(buffer, 0, 5, fill=7)[1].tolist() == [1, 1, 0, 7, 7]


def test_a_sentence_takes_no_more_slots_than_alone() -> None:
    texts = prompts(2, seed=1, shortest=9, longest=9) + prompts(1, seed=2, shortest=3, longest=3)
    first = fresh(texts)
    state: Any = running_state(first)
    state.join(first)
    for step in range(3):
        assert state.ancestry.used == [8 + step, 8 + step, 2 + step]
        state.grow(1)
        state.step(torch.full((3, 1), 5))
    state.compact(RowCompaction.of([2], torch.device("cpu")))
    assert (state.sentences, state.ancestry.used) == (1, [5])
    state.join(fresh(prompts(1, seed=3, shortest=6, longest=6)))
    assert state.ancestry.positions_SW.tolist() == [[5], [5]]


def test_a_state_with_one_clock_is_refused() -> None:
    encoded = CompactInput(language_model().start(*padded(prompts(1))), "int8")
    state = encoded.make_state(1, 1, 4, fixed=False)
    with pytest.raises(UserError, match=r"leave decode\.cache out"):
        running_state(state)
