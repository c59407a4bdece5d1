"""Recurrent cells word by word, for decoders that must know what they looked at before they read on.

LSTM (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000) and GRU (Cho et al. 2014), in the letters and the
order of gates of torch.nn:

    LSTM   i, f, o = sigmoid, g = tanh of (W x + U h + b);   c' = f c + i g;   h' = o tanh(c')
    GRU    r, z = sigmoid(W x + U h + b);   n = tanh(W_n x + b_n + r (U_n h + b'_n));   h' = (1 - z) n + z h

What of a word's input is known before the loop is multiplied before it, all words at once; only the rest waits for its turn.

Dims: R rows, I inputs of a step that are not known before, D width, G gates side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.recurrence.late import Late
from regard.model.recurrence.recurrent import own

Carried = tuple[Tensor, ...]  # of one layer: h_RD, and of an LSTM c_RD


class Cells:
    """The layers of a recurrence as steps of one pass. Of each input of the first layer, the first `known` numbers come early."""

    def __init__(self, layers: Sequence[nn.LSTM | nn.GRU], known: int, dropout: nn.Dropout) -> None:
        self.dropout = dropout
        early = [known] + [0] * (len(layers) - 1)
        self.cells = [_LSTM(layer, n) if isinstance(layer, nn.LSTM) else _GRU(layer, n) for layer, n in zip(layers, early)]

    def known(self, x_LRE: Tensor) -> Tensor:
        """known_LRG: what of the first layer's gates comes from what is known of all words."""
        return self.cells[0].known(x_LRE)

    def __call__(self, known_RG: Tensor, x_RI: Tensor, carried: Sequence[Carried]) -> list[Carried]:
        found: list[Carried] = []
        for n, (cell, before) in enumerate(zip(self.cells, carried)):
            if n:
                known_RG, x_RI = cell.bias_G, self.dropout(found[-1][0])
            found.append(cell(known_RG, x_RI, before))
        return found


class _LSTM:
    def __init__(self, layer: nn.LSTM, known: int) -> None:
        inputs_GI, carried_GD, *biases = own(layer)
        self.early_GE, late_GI = inputs_GI.tensor_split([known], 1)
        self.bias_G = biases[0] + biases[1]
        self.product = Late(torch.cat([late_GI, carried_GD], 1))

    def known(self, x_LRE: Tensor) -> Tensor:
        return F.linear(x_LRE, self.early_GE, self.bias_G)

    def __call__(self, known_RG: Tensor, x_RI: Tensor, carried: Carried) -> Carried:
        h_RD, c_RD = carried
        return lstm(known_RG.to(c_RD.dtype), self.product(torch.cat([x_RI, h_RD], 1)).to(c_RD.dtype), c_RD)


class _GRU:
    def __init__(self, layer: nn.GRU, known: int) -> None:
        inputs_GI, carried_GD, self.bias_G, self.carried_bias_G = own(layer)
        self.early_GE, late_GI = inputs_GI.tensor_split([known], 1)
        self.product, self.carried = Late(late_GI), Late(carried_GD)

    def known(self, x_LRE: Tensor) -> Tensor:
        return F.linear(x_LRE, self.early_GE, self.bias_G)

    def __call__(self, known_RG: Tensor, x_RI: Tensor, carried: Carried) -> Carried:
        (h_RD,) = carried
        given_RG = known_RG + self.product(x_RI)
        return (gru(given_RG.to(h_RD.dtype), self.carried(h_RD).to(h_RD.dtype), h_RD, self.carried_bias_G),)


def lstm(given_RG: Tensor, carried_RG: Tensor, c_RD: Tensor) -> tuple[Tensor, Tensor]:
    """h and c, by one kernel where there is one."""
    if c_RD.is_cuda:
        h_RD, c_RD, _ = torch.ops.aten._thnn_fused_lstm_cell(given_RG.expand_as(carried_RG).contiguous(), carried_RG, c_RD)
        return h_RD, c_RD
    i_RD, f_RD, g_RD, o_RD = (given_RG + carried_RG).chunk(4, 1)
    c_RD = f_RD.sigmoid() * c_RD + i_RD.sigmoid() * g_RD.tanh()
    return o_RD.sigmoid() * c_RD.tanh(), c_RD


def gru(given_RG: Tensor, carried_RG: Tensor, h_RD: Tensor, carried_bias_G: Tensor) -> Tensor:
    carried_RG = carried_RG + carried_bias_G.to(carried_RG.dtype)
    if h_RD.is_cuda:
        return torch.ops.aten._thnn_fused_gru_cell(given_RG.contiguous(), carried_RG, h_RD)[0]
    width = h_RD.shape[1]
    r_RD, z_RD = (given_RG[:, : 2 * width] + carried_RG[:, : 2 * width]).sigmoid().chunk(2, 1)
    n_RD = (given_RG[:, 2 * width :] + r_RD * carried_RG[:, 2 * width :]).tanh()
    return n_RD + z_RD * (h_RD - n_RD)
