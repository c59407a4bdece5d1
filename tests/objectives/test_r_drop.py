"""The divergence of R-Drop against torch's own, and the weights that are refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.core.errors import UserError
from regard.objectives import OBJECTIVES
from regard.objectives.seq2seq import r_drop_divergence


def test_it_is_torchs_divergence_in_both_directions_over_the_rows_that_count() -> None:
    p, q = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0)).unbind()
    counted = torch.tensor([True, False, True, True, False])
    kl = nn.KLDivLoss(reduction="sum", log_target=True)
    one, other = (logits[counted].log_softmax(-1) for logits in (p, q))
    torch.testing.assert_close(r_drop_divergence(p, q, counted), (kl(one, other) + kl(other, one)) / 4)


def test_equal_predictions_do_not_diverge_and_others_do_in_either_order() -> None:
    p, q = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1)).unbind()
    every = torch.ones(3, dtype=torch.bool)
    assert r_drop_divergence(p, p + 5.0, every).item() == pytest.approx(0.0, abs=1e-6)  # a shift of logits changes nothing
    assert r_drop_divergence(p, q, every) > 0.01
    torch.testing.assert_close(r_drop_divergence(p, q, every), r_drop_divergence(q, p, every))


def test_it_is_computed_in_float32_and_pulls_both_predictions() -> None:
    p, q = (torch.randn(3, 4, dtype=torch.bfloat16).requires_grad_() for _ in range(2))
    loss = r_drop_divergence(p, q, torch.tensor([True, True, False]))
    loss.backward()
    assert loss.dtype == torch.float32
    for logits in (p, q):
        assert logits.grad is not None
        assert logits.grad[:2].abs().sum() > 0
        assert logits.grad[2].abs().sum() == 0


@pytest.mark.parametrize("weight", [-0.1, math.inf, math.nan])
@pytest.mark.parametrize("name", ["seq2seq", "classification"])
def test_a_weight_that_cannot_be_is_refused(name: str, weight: float) -> None:
    assert OBJECTIVES[name](r_drop=0.0).passes == 1
    assert OBJECTIVES[name](r_drop=5.0).passes == 2
    with pytest.raises(UserError, match=r"objective\.r_drop=.* must be 0 \(off\) or more, such as 5"):
        OBJECTIVES[name](r_drop=weight)
