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
    from regard.model.kernels.linear import Pending, add_norm, gated, product

pytestmark = needs_triton


def normed(width: int, kind: str | None) -> nn.LayerNorm | nn.RMSNorm | None:
    return None if kind is None else lively({"layer": nn.LayerNorm, "rms": nn.RMSNorm}[kind](width, eps=1e-5)).to(DEVICE)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(rows=SIZES, width=SIZES, adds=st.booleans(), kind=st.sampled_from(["layer", "rms"]), factor=st.sampled_from([1.0, 0.3]))
def test_sums_and_their_norms(dtype: torch.dtype, rows: int, width: int, adds: bool, kind: str, factor: float) -> None:
    torch.manual_seed(rows + width)
    x_RD, y_RD = (torch.randn(2, rows, width) * 3 + 10).to(DEVICE, dtype)
    norm = normed(width, kind).to(dtype)
    sum_RD, normed_RD = add_norm(x_RD, y_RD if adds else None, norm, factor)
    exact_RD = x_RD.double() + (y_RD.double() if adds else 0)
    close(sum_RD, exact_RD, dtype)
    close(normed_RD, norm.double()(sum_RD.double()) * factor, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(rows=SIZES, width=SIZES, activation=st.sampled_from(list(ACTIVATIONS)))
def test_gates_open_by_their_activation(dtype: torch.dtype, rows: int, width: int, activation: str) -> None:
    gate_RF, x_RF = torch.randn(2, rows, width, generator=torch.Generator().manual_seed(rows)).to(DEVICE, dtype)
    close(gated(gate_RF, x_RF, activation), ACTIVATIONS[activation](gate_RF.double()) * x_RF.double(), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(outputs=SIZES, inputs=st.sampled_from([16, 48, 160]), data=st.data())
def test_products_with_all_that_stands_around_them(dtype: torch.dtype, outputs: int, inputs: int, data: st.DataObject):
    flag, kind = st.booleans(), st.sampled_from([None, "layer", "rms"])
    activation, gate = data.draw(st.sampled_from([None, *ACTIVATIONS])), data.draw(flag)
    check_product(dtype, outputs, inputs, activation, data.draw(flag), data.draw(kind), data.draw(flag), data.draw(kind), gate)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize(("kind", "gate"), [("layer", False), ("rms", True)])
def test_products_of_several_tiles(dtype: torch.dtype, kind: str, gate: bool) -> None:
    check_product(dtype, 140, 1040, "gelu", True, kind, True, kind, gate)


def check_product(
    dtype: torch.dtype,
    outputs: int,
    inputs: int,
    activation: str | None,
    bias: bool,
    norm: str | None,
    adds: bool,
    late: str | None,
    gates: bool,
) -> None:
    torch.manual_seed(outputs)
    linear = nn.Linear(inputs, outputs, bias=bias).to(DEVICE)
    gate = nn.Linear(inputs, outputs, bias=bias).to(DEVICE) if gates else None
    x = (3 * torch.randn(1, inputs) + 10).to(DEVICE)
    residual = (torch.randn(1, outputs) - 5).to(DEVICE) if adds else None
    norms, factor = (normed(inputs, norm), normed(outputs, late)), 0.3 if gates else 1.0
    parts = [part for part in (linear, gate, *norms) if part is not None]
    x, residual = x.to(dtype), None if residual is None else residual.to(dtype)
    for part in parts:
        part.to(dtype)
    later = None if residual is None else Pending(residual, norms[1])
    found = product(Pending(x, norms[0]), linear, activation, later, gate, factor)
    for part in parts:
        part.double()
    read = factor * (x.double() if norms[0] is None else norms[0](x.double()))
    exact, active = linear(read), ACTIVATIONS[activation] if activation else lambda each: each
    exact = active(exact) if gate is None else active(gate(read)) * exact
    if residual is not None:
        exact = exact + (residual.double() if norms[1] is None else norms[1](residual.double()))
    assert found.dtype == dtype
    close(found, exact, dtype)
