"""The gradient of a bias by distance, summed by diagonals of blocks: against PyTorch's own gradient of all pairs at once."""

from __future__ import annotations

import pytest
import torch

from regard.core.packing import Packing, to_device

HEADS, REACH = 2, 256


@pytest.mark.gpu
@torch.enable_grad()
@pytest.mark.parametrize("width", [24, 64])
@pytest.mark.parametrize(("left", "right"), [(-1, -1), (-1, 0), (70, 3), (0, 0)])
@pytest.mark.parametrize("lengths", [[130, 7, 64], [1, 200, 0, 55]])
def test_it_is_the_sum_over_all_pairs(lengths: list[int], left: int, right: int, width: int) -> None:
    from regard.model.kernels.table_gradient import with_table_gradient

    device = torch.device("cuda")
    torch.manual_seed(0)
    packing = to_device(Packing.of(lengths, longest=REACH), device)
    q, k, v, changed = torch.randn(4, 1, HEADS, packing.tokens, width, device=device)
    table = torch.randn(HEADS, 2 * REACH + 1, device=device, requires_grad=True)
    distance = packing.positions_T - packing.positions_T[:, None]
    sees = packing.ids_T == packing.ids_T[:, None]
    sees &= (distance >= -left) | (left < 0)
    sees &= (distance <= right) | (right < 0)
    scores = (q @ k.mT * width**-0.5 + table[:, distance + REACH]).masked_fill(~sees, -torch.inf)
    context, lse = scores.softmax(-1) @ v, scores.logsumexp(-1)
    (expected,) = torch.autograd.grad(context, table, changed, retain_graph=True)
    given = context.detach(), lse.detach(), q, k, v, table, packing.starts_N, packing.longest, left, right
    (found,) = torch.autograd.grad(with_table_gradient(*given), table, changed)
    torch.testing.assert_close(found, expected, atol=2e-5 * expected.abs().max().item(), rtol=1e-4)
