"""What the gates of an LSTM and of a GRU do, on a CPU, with their gradients written down.

Of a step's small operations autograd would make a node each, and fill a gradient as wide as all gates with zeros for every part
that is cut out of them. Here a step is one node, and each part is written to its place. The formulas are those of `cells.py`;
a sigmoid s has the slope s (1 - s), a tanh t the slope 1 - t^2.

Dims: R rows, D width, G gates side by side.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_sigmoid_slope, _tanh_slope = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class LSTMGates(torch.autograd.Function):
    """h and c, of what is given and what is carried, each i, f, g, o side by side, and of the c before."""

    @staticmethod
    def forward(ctx: Any, given_RG: Tensor, carried_RG: Tensor, c_RD: Tensor) -> tuple[Tensor, Tensor]:
        gates_RG, width = given_RG + carried_RG, c_RD.shape[1]
        gates_RG[:, : 2 * width].sigmoid_(), gates_RG[:, 2 * width : 3 * width].tanh_(), gates_RG[:, 3 * width :].sigmoid_()
        i_RD, f_RD, g_RD, o_RD = gates_RG.chunk(4, 1)
        next_RD = (f_RD * c_RD).addcmul_(i_RD, g_RD)
        tanh_RD = next_RD.tanh()
        ctx.save_for_backward(gates_RG, c_RD, tanh_RD)
        return o_RD * tanh_RD, next_RD

    @staticmethod
    def backward(ctx: Any, h_RD: Tensor, next_RD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates_RG, c_RD, tanh_RD = ctx.saved_tensors
        i_RD, f_RD, g_RD, o_RD = gates_RG.chunk(4, 1)
        next_RD = next_RD + _tanh_slope(h_RD * o_RD, tanh_RD)
        to_gates_RG = torch.empty_like(gates_RG)
        to_i_RD, to_f_RD, to_g_RD, to_o_RD = to_gates_RG.chunk(4, 1)
        _sigmoid_slope(next_RD * g_RD, i_RD, grad_input=to_i_RD)
        _sigmoid_slope(next_RD * c_RD, f_RD, grad_input=to_f_RD)
        _tanh_slope(next_RD * i_RD, g_RD, grad_input=to_g_RD)
        _sigmoid_slope(h_RD * tanh_RD, o_RD, grad_input=to_o_RD)
        return to_gates_RG, to_gates_RG, next_RD * f_RD


class GRUGates(torch.autograd.Function):
    """h of what is given and what is carried, each r, z, n side by side, and of the h before."""

    @staticmethod
    def forward(ctx: Any, given_RG: Tensor, carried_RG: Tensor, h_RD: Tensor) -> Tensor:
        width = h_RD.shape[1]
        r_z_RE = (given_RG[:, : 2 * width] + carried_RG[:, : 2 * width]).sigmoid_()
        r_RD, z_RD = r_z_RE.chunk(2, 1)
        n_RD = torch.addcmul(given_RG[:, 2 * width :], r_RD, carried_RG[:, 2 * width :]).tanh_()
        ctx.save_for_backward(r_z_RE, n_RD, carried_RG, h_RD)
        return torch.lerp(n_RD, h_RD, z_RD)

    @staticmethod
    def backward(ctx: Any, next_RD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r_z_RE, n_RD, carried_RG, h_RD = ctx.saved_tensors
        r_RD, z_RD = r_z_RE.chunk(2, 1)
        width, to_h_RD = h_RD.shape[1], next_RD * z_RD
        given_RG, to_carried_RG = torch.empty_like(carried_RG), torch.empty_like(carried_RG)
        to_r_RD, to_z_RD, to_n_RD = given_RG.chunk(3, 1)
        _tanh_slope(next_RD - to_h_RD, n_RD, grad_input=to_n_RD)
        _sigmoid_slope((h_RD - n_RD).mul_(next_RD), z_RD, grad_input=to_z_RD)
        _sigmoid_slope(to_n_RD * carried_RG[:, 2 * width :], r_RD, grad_input=to_r_RD)
        to_carried_RG[:, : 2 * width] = given_RG[:, : 2 * width]
        torch.mul(to_n_RD, r_RD, out=to_carried_RG[:, 2 * width :])
        return given_RG, to_carried_RG, to_h_RD
