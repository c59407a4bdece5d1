"""Norms: RMS against its formula and PyTorch's, sums in float32 for half precision."""

from __future__ import annotations

import pytest
import torch

from regard.model.norm import NORMS, Norm, RMSNorm


def test_rms_is_its_formula() -> None:
    norm, x = RMSNorm(16, eps=1e-5), torch.randn(3, 5, 16) * 3
    torch.nn.init.normal_(norm.weight)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight
    torch.testing.assert_close(norm(x), expected)
    torch.testing.assert_close(norm(x), torch.nn.functional.rms_norm(x, (16,), norm.weight, 1e-5))
    assert [name for name, _ in norm.named_parameters()] == ["weight"]


@pytest.mark.parametrize("kind", list(NORMS))
def test_half_precision_stays_what_it_is(kind: str) -> None:
    norm, x = NORMS[kind](64, eps=1e-5), torch.randn(4, 64) * 100
    found = norm.bfloat16()(x.bfloat16())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), norm.float()(x), atol=0.05, rtol=0.02)


def test_layer_norm_is_pytorchs() -> None:
    x = torch.randn(2, 3, 8)
    assert torch.equal(Norm(8)(x), torch.nn.LayerNorm(8)(x))
