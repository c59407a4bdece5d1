"""Products, sums and norms in one kernel against the layers they stand for, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.model.kernels.decode_step import HAS_TRITON
from regard.model.layers import ACTIVATIONS
from tests.model.kernels.interpreted import DEVICE, EXAMPLES, HALF, SIZES, close, lively, needs_triton

if HAS_TRITON:
    from regard.model.kernels.linear import Pending, add_norm, product

pytestmark = needs_triton


def normed(width: int, on: bool) -> nn.LayerNorm | None:
    return lively(nn.LayerNorm(width)).to(DEVICE) if on else None


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(rows=SIZES, width=SIZES, adds=st.booleans())
def test_sums_and_their_norms(dtype: torch.dtype, rows: int, width: int, adds: bool) -> None:
    torch.manual_seed(rows + width)
    x_RD, y_RD = (torch.randn(2, rows, width) * 3 + 10).to(DEVICE, dtype)
    norm = lively(nn.LayerNorm(width)).to(DEVICE, dtype)
    sum_RD, normed_RD = add_norm(x_RD, y_RD if adds else None, norm)
    exact_RD = x_RD.double() + (y_RD.double() if adds else 0)
    close(sum_RD, exact_RD, dtype)
    close(normed_RD, norm.double()(sum_RD.double()), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(outputs=SIZES, inputs=st.sampled_from([16, 48, 160]), data=st.data())
def test_products_with_all_that_stands_around_them(dtype: torch.dtype, outputs: int, inputs: int, data: st.DataObject):
    flag = st.booleans()
    activation = data.draw(st.sampled_from([None, *ACTIVATIONS]))
    check_product(dtype, outputs, inputs, activation, data.draw(flag), data.draw(flag), data.draw(flag), data.draw(flag))


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_products_of_several_tiles(dtype: torch.dtype) -> None:
    check_product(dtype, 140, 1040, "gelu", True, True, True, True)


def check_product(
    dtype: torch.dtype,
    outputs: int,
    inputs: int,
    activation: str | None,
    bias: bool,
    norm: bool,
    adds: bool,
    late: bool,
) -> None:
    torch.manual_seed(outputs)
    linear = nn.Linear(inputs, outputs, bias=bias).to(DEVICE)
    x = (3 * torch.randn(1, inputs) + 10).to(DEVICE)
    residual = (torch.randn(1, outputs) - 5).to(DEVICE) if adds else None
    norms = (normed(inputs, norm), normed(outputs, late))
    parts = [linear, *(norm for norm in norms if norm is not None)]
    x, residual = x.to(dtype), None if residual is None else residual.to(dtype)
    for part in parts:
        part.to(dtype)
    found = product(Pending(x, norms[0]), linear, activation, None if residual is None else Pending(residual, norms[1]))
    for part in parts:
        part.double()
    exact = linear(x.double() if norms[0] is None else norms[0](x.double()))
    exact = exact if activation is None else ACTIVATIONS[activation](exact)
    if residual is not None:
        exact = exact + (residual.double() if norms[1] is None else norms[1](residual.double()))
    assert found.dtype == dtype
    close(found, exact, dtype)
