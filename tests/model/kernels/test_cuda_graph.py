"""A recorded step against the same step run in Python: its buffers, its random numbers, its autocast, and captures that fail."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.model.kernels.cuda_graph import CudaRecorder

pytestmark = pytest.mark.gpu


def buffers() -> tuple[Tensor, Tensor, CudaRecorder]:
    device = torch.device("cuda")
    return torch.zeros(4, 4, device=device), torch.arange(16.0, device=device).view(4, 4), CudaRecorder(device)


def test_a_replay_repeats_the_step_on_what_its_buffers_hold_by_then() -> None:
    total, given, recorder = buffers()

    def step() -> None:
        total.add_(given @ given)

    recorder.warm_up(step)
    assert torch.equal(total, given @ given)
    replay = recorder.record(step)
    assert torch.equal(total, given @ given)  # a capture runs nothing
    total.zero_()
    given.fill_(2.0)
    replay()
    replay()
    assert torch.equal(total, torch.full_like(total, 32.0))


def test_every_replay_draws_new_numbers_and_a_seed_repeats_them() -> None:
    total, _, recorder = buffers()

    def step() -> None:
        total.copy_(torch.rand_like(total))

    recorder.warm_up(step)
    replay = recorder.record(step)
    found = []
    for _ in range(2):
        torch.cuda.manual_seed(7)
        for _ in range(2):
            replay()
            found.append(total.clone())
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])
    assert not torch.equal(found[0], found[1])


def test_autocast_is_that_of_the_caller() -> None:
    _, given, recorder = buffers()
    kept: list[Tensor] = []

    def step() -> None:
        kept.append(given @ given)

    with torch.autocast("cuda", torch.bfloat16):
        recorder.warm_up(step)
        recorder.record(step)()
    recorder.record(step)()
    assert [product.dtype for product in kept] == [torch.bfloat16, torch.bfloat16, torch.float32]
    torch.testing.assert_close(kept[1].float(), given @ given, rtol=1e-2, atol=0.0)


def test_after_a_capture_that_failed_numbers_are_drawn_and_steps_recorded() -> None:
    total, given, recorder = buffers()
    with pytest.raises(RuntimeError):
        recorder.record(lambda: given.add_(torch.rand_like(given)).sum().item())
    torch.cuda.synchronize()
    assert torch.rand(8, device="cuda").isfinite().all()
    recorder.warm_up(lambda: total.add_(1.0))
    recorder.record(lambda: total.add_(1.0))()
    assert torch.equal(total, torch.full_like(total, 2.0))
