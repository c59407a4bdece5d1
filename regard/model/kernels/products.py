"""out = activation(norm(x) W^T + b) + norm(residual), for the few rows of a decoding step, in one kernel.

Such a product waits for memory: each weight is read once, and used for a handful of rows. What stands around it costs launches
and waiting, so it is done here on the way: the norm of what comes in, and the sum that goes out. A norm is never computed by
itself: vectors travel on with the norm they still have to pass, which makes pre-norm and post-norm the same kernel.

One row is multiplied and summed, with the first weights on their way before anything else is known; more rows take tensor cores.
Dims: M rows, N outputs, K inputs.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from regard.model.kernels.launch import follow, overlapping


class Pending(NamedTuple):
    """Vectors, and the norm that they still have to pass."""

    x_MK: Tensor
    norm: nn.LayerNorm | None = None


class Sizes(NamedTuple):
    """What one program computes, by how many warps, and how many tiles ahead it asks for what it needs."""

    rows: int
    outputs: int
    inputs: int
    warps: int
    stages: int = 1

    @classmethod
    def of(cls, rows: int, weight_NK: Tensor) -> Sizes:
        many, widest = len(weight_NK) > 8192, triton.next_power_of_2(weight_NK.shape[1])
        if rows == 1:
            return cls(1, 8 if many else 4, min(1024, widest), 4)
        block = min(64, max(16, triton.next_power_of_2(rows)))
        return cls(block, 32 if many else 16, min(256 // weight_NK.element_size(), widest), 4, 4 if block < 64 else 3)


def product(
    x: Pending, linear: nn.Linear, activation: str | None = None, residual: Pending | None = None, sizes: Sizes | None = None
) -> Tensor:
    """out_MN, in the type of the weights; K must be a multiple of 16."""
    (outputs, inputs), rows = linear.weight.shape, len(x.x_MK)
    blocks = sizes or Sizes.of(rows, linear.weight)
    out_MN = torch.empty(rows, outputs, dtype=linear.weight.dtype, device=x.x_MK.device)
    overlap = overlapping(out_MN)
    _product[(triton.cdiv(outputs, blocks.outputs), triton.cdiv(rows, blocks.rows))](
        *(x.x_MK, *_norm(x.norm), linear.weight, linear.bias),
        *((None, None, None, 0.0) if residual is None else (residual.x_MK, *_norm(residual.norm))),
        *(out_MN, rows, outputs),
        K=inputs,
        ACTIVATION=activation,
        PRECISION="tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
        BLOCK_M=blocks.rows,
        BLOCK_N=blocks.outputs,
        BLOCK_K=blocks.inputs,
        OVERLAP=overlap,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
        launch_pdl=overlap,
    )
    return out_MN


def _norm(norm: nn.LayerNorm | None) -> tuple[Tensor | None, Tensor | None, float]:
    return (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)


@triton.jit(do_not_specialize=["rows"])
def _product(
    x, scale, shift, epsilon, weight, bias,
    residual, residual_scale, residual_shift, residual_epsilon,
    out, rows, outputs,
    K: tl.constexpr, ACTIVATION: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    n_N = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m_M = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    if BLOCK_M == 1:
        sum_MN = _one_row(x, scale, shift, epsilon, weight, m_M, n_N, rows, outputs, K, BLOCK_N, BLOCK_K, OVERLAP)
    else:
        sum_MN = _some_rows(x, scale, shift, epsilon, weight, m_M, n_N, rows, outputs, K, PRECISION, BLOCK_K, OVERLAP)
    if bias is not None:
        sum_MN += tl.load(bias + n_N, mask=n_N < outputs, other=0.0).to(tl.float32)[None, :]
    sum_MN = _activated(sum_MN, ACTIVATION)
    if residual is not None:
        mean_M, rate_M = _moments(residual, residual_scale, residual_epsilon, m_M, rows, outputs, BLOCK_K)
        added_MN = _tile(residual, residual_scale, residual_shift, mean_M, rate_M, m_M, n_N, rows, outputs)
        sum_MN += added_MN.to(tl.float32)
    inside_MN = (m_M < rows)[:, None] & (n_N < outputs)[None, :]
    tl.store(out + m_M[:, None] * outputs + n_N[None, :], sum_MN.to(out.dtype.element_ty), mask=inside_MN)


@triton.jit
def _one_row(
    x, scale, shift, epsilon, weight, m_M, n_N, rows, outputs,
    K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Always one tile of weights ahead; they do not depend on the kernel before this one, so the first is asked for at once."""
    weights_NK = _weights(weight, n_N, tl.arange(0, BLOCK_K), outputs, K)
    follow(OVERLAP)
    mean_M, rate_M = _moments(x, scale, epsilon, m_M, rows, K, BLOCK_K)
    sum_NK = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        k_K = start + tl.arange(0, BLOCK_K)
        ahead_NK = _weights(weight, n_N, k_K + BLOCK_K, outputs, K)
        x_1K = _tile(x, scale, shift, mean_M, rate_M, m_M, k_K, rows, K)
        sum_NK += weights_NK.to(tl.float32) * x_1K.to(tl.float32)
        weights_NK = ahead_NK
    return tl.sum(sum_NK, 1)[None, :]


@triton.jit
def _some_rows(
    x, scale, shift, epsilon, weight, m_M, n_N, rows, outputs,
    K: tl.constexpr, PRECISION: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    follow(OVERLAP)
    mean_M, rate_M = _moments(x, scale, epsilon, m_M, rows, K, BLOCK_K)
    sum_MN = tl.zeros((m_M.shape[0], n_N.shape[0]), tl.float32)
    for start in range(0, K, BLOCK_K):
        k_K = start + tl.arange(0, BLOCK_K)
        x_MK = _tile(x, scale, shift, mean_M, rate_M, m_M, k_K, rows, K)
        weights_NK = _weights(weight, n_N, k_K, outputs, K)
        sum_MN = tl.dot(x_MK.to(weights_NK.dtype), weights_NK.T, sum_MN, input_precision=PRECISION)
    return sum_MN


@triton.jit
def _weights(weight, n_N, k_K, outputs, K: tl.constexpr):
    inside_NK = (n_N < outputs)[:, None] & (k_K < K)[None, :]
    return tl.load(weight + n_N.to(tl.int64)[:, None] * K + k_K[None, :], mask=inside_NK, other=0.0)


@triton.jit
def _tile(x, scale, shift, mean_M, rate_M, m_M, k_K, rows, width):
    """x_MK, in float32 if it has passed a norm; zero outside."""
    inside_K = k_K < width
    x_MK = tl.load(x + m_M[:, None] * width + k_K[None, :], mask=(m_M < rows)[:, None] & inside_K[None, :], other=0.0)
    if scale is not None:
        scale_K = tl.load(scale + k_K, mask=inside_K, other=0.0).to(tl.float32)
        shift_K = tl.load(shift + k_K, mask=inside_K, other=0.0).to(tl.float32)
        x_MK = (x_MK.to(tl.float32) - mean_M[:, None]) * rate_M[:, None] * scale_K[None, :] + shift_K[None, :]
    return x_MK


@triton.jit
def _moments(x, scale, epsilon, m_M, rows, width, BLOCK: tl.constexpr):
    """Of whole rows, where there is a norm: mean and 1 / deviation.

    Chunk after chunk, each with its own mean (Chan et al. 1983), so that a large mean does not drown a small deviation.
    """
    mean_M = tl.zeros(m_M.shape, tl.float32)
    rate_M = tl.zeros(m_M.shape, tl.float32)
    if scale is not None:
        squares_M = tl.zeros(m_M.shape, tl.float32)
        for start in range(0, width, BLOCK):
            k_K = start + tl.arange(0, BLOCK)
            inside_MK = (m_M < rows)[:, None] & (k_K < width)[None, :]
            x_MK = tl.load(x + m_M[:, None] * width + k_K[None, :], mask=inside_MK, other=0.0).to(tl.float32)
            count = tl.minimum(width - start, BLOCK)
            chunk_M = tl.sum(x_MK, 1) / count
            off_MK = tl.where(inside_MK, x_MK - chunk_M[:, None], 0.0)
            apart_M = chunk_M - mean_M
            share = count / (start + count)
            mean_M += apart_M * share
            squares_M += tl.sum(off_MK * off_MK, 1) + apart_M * apart_M * (start * share)
        rate_M = tl.rsqrt(squares_M / width + epsilon)
    return mean_M, rate_M


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":  # (1 + tanh z) / 2 is the sigmoid of 2 z
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    return x
