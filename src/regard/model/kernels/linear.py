"""Linear layers and sums with their norms, in one kernel each, for a decoding step. Dims: N outputs, K inputs, R rows, D width.

How one kernel of a step follows the other: on Hopper and later, it is launched while the one before still runs.

A step is a chain of kernels of a few microseconds, and a launch takes one of them. With programmatic dependent launch a kernel
comes up early, asks for what does not depend on the chain (its weights), and then waits. Every kernel of the chain must wait: so
each knows that all before it are through, not only the last.

`product`: out = activation(norm(x) W^T + b) + norm(residual), for the one row of a decoding step. Such a product waits for
memory: each weight is read once, and used once. What stands around it costs launches and waiting, so it is done here on the way:
the norm of what comes in, the product with a gate, and the sum that goes out. A norm is never computed by itself: a vector
travels on with the norm it still has to pass, which makes pre-norm and post-norm the same kernel. The first weights are on their
way before anything else is known. `add_norm`: x + y and norm(x + y) of every row. `gated`: activation(gate) * x of every row.

A norm without a shift is an RMS norm, which takes no mean off either.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

AnyNorm = nn.LayerNorm | nn.RMSNorm


def add_norm(x_RD: Tensor, y_RD: Tensor | None, norm: AnyNorm, factor: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the sum and `factor` times its norm; without `y_RD`, x itself and its norm."""
    rows, width = x_RD.shape
    sum_RD, normed_RD = x_RD if y_RD is None else torch.empty_like(x_RD), torch.empty_like(x_RD)
    block = triton.next_power_of_2(width)
    arguments = (x_RD, y_RD, *_norm(norm), sum_RD, normed_RD, width, factor)
    _add_norm[(rows,)](*arguments, BLOCK=block, num_warps=4 if block <= 2048 else 8)
    return sum_RD, normed_RD


@triton.jit(do_not_specialize=["factor"])
def _add_norm(x, y, scale, shift, epsilon, sum_, normed, width, factor, BLOCK: tl.constexpr):
    d_D = tl.arange(0, BLOCK)
    inside_D, row = d_D < width, tl.program_id(0).to(tl.int64) * width
    x_D = tl.load(x + row + d_D, mask=inside_D, other=0.0).to(tl.float32)
    if y is not None:
        x_D += tl.load(y + row + d_D, mask=inside_D, other=0.0).to(tl.float32)
        x_D = x_D.to(sum_.dtype.element_ty)  # the norm is of what others will read
        tl.store(sum_ + row + d_D, x_D, mask=inside_D)
        x_D = x_D.to(tl.float32)
    if shift is not None:
        x_D = tl.where(inside_D, x_D - tl.sum(x_D, 0) / width, 0.0)
    rate = tl.rsqrt(tl.sum(x_D * x_D, 0) / width + epsilon)
    normed_D = x_D * rate * tl.load(scale + d_D, mask=inside_D, other=0.0).to(tl.float32)
    if shift is not None:
        normed_D += tl.load(shift + d_D, mask=inside_D, other=0.0).to(tl.float32)
    tl.store(normed + row + d_D, (normed_D * factor).to(normed.dtype.element_ty), mask=inside_D)


def gated(gate_RF: Tensor, x_RF: Tensor, activation: str) -> Tensor:
    """Return activation(gate) * x."""
    out_RF, block = torch.empty_like(x_RF), 1024
    _gated[(triton.cdiv(x_RF.numel(), block),)](gate_RF, x_RF, out_RF, x_RF.numel(), ACTIVATION=activation, BLOCK=block)
    return out_RF


@triton.jit
def _gated(gate, x, out, count, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    n_N = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate_N = _activated(tl.load(gate + n_N, mask=n_N < count, other=0.0).to(tl.float32), ACTIVATION)
    x_N = tl.load(x + n_N, mask=n_N < count, other=0.0).to(tl.float32)
    tl.store(out + n_N, (gate_N * x_N).to(out.dtype.element_ty), mask=n_N < count)


OVERLAP = True


def overlapping(x_RD: Tensor) -> bool:
    """Return the launch option for overlapping kernels; with several rows, between the library's kernels, it measured slower."""
    return OVERLAP and x_RD.is_cuda and len(x_RD) == 1 and torch.cuda.get_device_capability(x_RD.device) >= (9, 0)


@triton.jit
def follow(OVERLAP: tl.constexpr):
    """Wait until all kernels before have written, and let the next kernel launch."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


class Pending(NamedTuple):
    """A vector, and the norm that it still has to pass."""

    x_1K: Tensor
    norm: AnyNorm | None = None


class Sizes(NamedTuple):
    """Sizes of one program's tile, and its number of warps."""

    outputs: int
    inputs: int
    warps: int = 4

    @classmethod
    def of(cls, weight_NK: Tensor, gated: bool = False) -> Sizes:
        outputs = 8 if len(weight_NK) > 8192 else 4
        return cls(outputs // 2 if gated else outputs, min(1024, triton.next_power_of_2(weight_NK.shape[1])))


def product(
    x: Pending,
    linear: nn.Linear,
    activation: str | None = None,
    residual: Pending | None = None,
    gate: nn.Linear | None = None,
    factor: float = 1.0,
    sizes: Sizes | None = None,
) -> Tensor:
    """out_1N, in the type of the weights; K must be a multiple of 16.

    With a gate, out = activation(x W_gate^T) * x W^T. `factor` multiplies x.
    """
    outputs, inputs = linear.weight.shape
    blocks = sizes or Sizes.of(linear.weight, gate is not None)
    out_1N = torch.empty(1, outputs, dtype=linear.weight.dtype, device=x.x_1K.device)
    overlap = overlapping(out_1N)
    _product[(triton.cdiv(outputs, blocks.outputs),)](
        *(x.x_1K, *_norm(x.norm), linear.weight, linear.bias),
        *((None, None) if gate is None else (gate.weight, gate.bias)),
        *((None, None, None, 0.0) if residual is None else (residual.x_1K, *_norm(residual.norm))),
        *(out_1N, outputs, factor),
        K=inputs,
        ACTIVATION=activation,
        BLOCK_N=blocks.outputs,
        BLOCK_K=blocks.inputs,
        OVERLAP=overlap,
        num_warps=blocks.warps,
        launch_pdl=overlap,
    )
    return out_1N


def _norm(norm: AnyNorm | None) -> tuple[Tensor | None, Tensor | None, float]:
    """Return scale, shift and epsilon; an RMS norm has no shift."""
    if norm is None:
        return None, None, 0.0
    assert norm.eps is not None
    return norm.weight, norm.bias if isinstance(norm, nn.LayerNorm) else None, norm.eps


@triton.jit(do_not_specialize=["factor"])
def _product(
    x, scale, shift, epsilon, weight, bias, gate_weight, gate_bias,
    residual, residual_scale, residual_shift, residual_epsilon,
    out, outputs, factor,
    K: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    n_N = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    weights_NK = _weights(weight, n_N, tl.arange(0, BLOCK_K), outputs, K)  # these do not depend on the kernel before this one
    if gate_weight is not None:
        gate_weights_NK = _weights(gate_weight, n_N, tl.arange(0, BLOCK_K), outputs, K)
        gate_NK = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    follow(OVERLAP)
    mean, rate = _moments(x, scale, shift, epsilon, K, BLOCK_K)
    sum_NK = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        k_K = start + tl.arange(0, BLOCK_K)
        ahead_NK = _weights(weight, n_N, k_K + BLOCK_K, outputs, K)
        x_K = _part(x, scale, shift, mean, rate, k_K, K) * factor
        sum_NK += weights_NK.to(tl.float32) * x_K[None, :]
        weights_NK = ahead_NK
        if gate_weight is not None:
            gate_ahead_NK = _weights(gate_weight, n_N, k_K + BLOCK_K, outputs, K)
            gate_NK += gate_weights_NK.to(tl.float32) * x_K[None, :]
            gate_weights_NK = gate_ahead_NK
    sum_N = _with_bias(tl.sum(sum_NK, 1), bias, n_N, outputs)
    if gate_weight is None:
        sum_N = _activated(sum_N, ACTIVATION)
    else:
        sum_N *= _activated(_with_bias(tl.sum(gate_NK, 1), gate_bias, n_N, outputs), ACTIVATION)
    if residual is not None:
        mean, rate = _moments(residual, residual_scale, residual_shift, residual_epsilon, outputs, BLOCK_K)
        sum_N += _part(residual, residual_scale, residual_shift, mean, rate, n_N, outputs)
    tl.store(out + n_N, sum_N.to(out.dtype.element_ty), mask=n_N < outputs)


@triton.jit
def _with_bias(sum_N, bias, n_N, outputs):
    if bias is not None:
        sum_N += tl.load(bias + n_N, mask=n_N < outputs, other=0.0).to(tl.float32)
    return sum_N


@triton.jit
def _weights(weight, n_N, k_K, outputs, K: tl.constexpr):
    inside_NK = (n_N < outputs)[:, None] & (k_K < K)[None, :]
    return tl.load(weight + n_N.to(tl.int64)[:, None] * K + k_K[None, :], mask=inside_NK, other=0.0)


@triton.jit
def _part(x, scale, shift, mean, rate, k_K, width):
    """x_K, past its norm if it has one; zero outside."""
    inside_K = k_K < width
    x_K = tl.load(x + k_K, mask=inside_K, other=0.0).to(tl.float32)
    if scale is not None:
        x_K = (x_K - mean) * rate * tl.load(scale + k_K, mask=inside_K, other=0.0).to(tl.float32)
        if shift is not None:
            x_K += tl.load(shift + k_K, mask=inside_K, other=0.0).to(tl.float32)
    return x_K


@triton.jit
def _moments(x, scale, shift, epsilon, width, BLOCK: tl.constexpr):
    """Return mean and 1 / deviation of the whole vector, where there is a norm; of an RMS norm, 0 and 1 / root mean square.

    Chunk after chunk, each with its own mean (Chan et al. 1983), so that a large mean does not drown a small deviation.
    """
    mean = 0.0
    rate = 0.0
    if scale is not None and shift is None:
        squares = 0.0
        for start in range(0, width, BLOCK):
            k_K = start + tl.arange(0, BLOCK)
            x_K = tl.load(x + k_K, mask=k_K < width, other=0.0).to(tl.float32)
            squares += tl.sum(x_K * x_K, 0)
        rate = tl.rsqrt(squares / width + epsilon)
    elif scale is not None:
        squares = 0.0
        for start in range(0, width, BLOCK):
            k_K = start + tl.arange(0, BLOCK)
            x_K = tl.load(x + k_K, mask=k_K < width, other=0.0).to(tl.float32)
            count = tl.minimum(width - start, BLOCK)
            chunk = tl.sum(x_K, 0) / count
            off_K = tl.where(k_K < width, x_K - chunk, 0.0)
            apart = chunk - mean
            share = count / (start + count)
            mean += apart * share
            squares += tl.sum(off_K * off_K, 0) + apart * apart * (start * share)
        rate = tl.rsqrt(squares / width + epsilon)
    return mean, rate


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":  # (1 + tanh z) / 2 is the sigmoid of 2 z
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACTIVATION == "quick_gelu":
        x = x * tl.sigmoid(1.702 * x)
    elif ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    return x
