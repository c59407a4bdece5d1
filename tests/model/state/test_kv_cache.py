"""Slots of a decoding cache: where they stand in their text, which of them a lane descends from, and sizes that seldom change."""

from __future__ import annotations

import torch

from regard.model.state.kv_cache import BeamAncestry, Slots, round_to_stride
from regard.model.visibility import causal, window


def ancestry(lanes: int = 2, steps: int = 0) -> BeamAncestry:
    found = BeamAncestry(2, lanes, 4, steps, torch.zeros(2, 3, 4, 5))
    found.restart(torch.tensor([4, 1]), torch.tensor([9, 9]))
    return found


def test_sizes_are_few_and_at_most_a_quarter_too_large():
    assert [round_to_stride(n) for n in (1, 16, 17, 128, 129, 200, 1000)] == [16, 16, 32, 128, 160, 224, 1024]
    assert all(n <= round_to_stride(n) <= max(n + 15, 1.25 * n) for n in range(1, 3000))


def test_positions_of_slots_and_of_the_newest_tokens():
    """A prompt's slots stand at their own number; what was written, behind the words of its sentence."""
    found = ancestry()
    found.grow(2)
    for step in range(2):
        found.begin_step()
        queries, keys = found.view(causal).positions()
        assert queries.tolist() == [[4 + step] * 2, [1 + step] * 2]
        assert keys[0, :8].tolist() == [0, 1, 2, 3, 4, 4, 5, 5]
        assert keys[1, [0, 4, 5, 6, 7]].tolist() == [0, 1, 1, 2, 2]
        found.end_step()


def test_a_lane_sees_its_ancestors_in_its_window():
    found = ancestry()
    found.grow(3)
    for parents in ([[1, 0], [0, 0]], [[0, 0], [0, 1]]):
        found.begin_step()
        found.end_step()
        found.select(torch.tensor(parents))
    found.begin_step()
    sees = found.view(causal).mask[:, 0] == 0  # added to scores
    assert sees[0, 0].nonzero().flatten().tolist() == [0, 1, 2, 3, 5, 6, 8]
    assert sees[0, 1].nonzero().flatten().tolist() == [0, 1, 2, 3, 5, 6, 9]
    assert sees[1, 1].nonzero().flatten().tolist() == [0, 4, 7, 9]
    near = found.view(causal & window(1)).mask[:, 0] == 0
    assert near[0, 0].nonzero().flatten().tolist() == [6, 8]


def test_keys_are_written_behind_the_prompt():
    found = ancestry(steps=5)
    slots = Slots(found, torch.zeros(2, 3, 4, 5))
    prompt = torch.randn(2, 2, 3, 4, 5)
    slots.restart(torch.tensor([4, 1]), *prompt)
    found.grow(1)
    slots.grow()
    found.begin_step()
    newest = torch.randn(2, 2, 3, 2, 5)
    kv = slots.append(newest)
    assert torch.equal(kv[:, :, :, :4], prompt)
    assert torch.equal(kv[:, :, :, 4:6], newest)
