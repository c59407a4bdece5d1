"""Recurrent layers: LSTM and GRU over whole sequences, and word by word for decoders whose attention feeds the next step.

LSTM (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000) and GRU (Cho et al. 2014), in the letters and the
order of gates of torch.nn:

    LSTM   i, f, o = sigmoid, g = tanh of (W x + U h + b);   c' = f c + i g;   h' = o tanh(c')
    GRU    r, z = sigmoid(W x + U h + b);   n = tanh(W_n x + b_n + r (U_n h + b'_n));   h' = (1 - z) n + z h

Word by word, inputs that are known before the loop are multiplied before it, all words at once; only the rest is multiplied step
by step. On a CPU the gates have gradients of their own. Of a step's small operations autograd would make a node each, and fill a
gradient as wide as all gates with zeros for every part that is cut out of them. Here a step is one node, and each part is written
to its place. A sigmoid s has the slope s (1 - s), a tanh t the slope 1 - t^2.

Whole sequences are read in one direction or both, and go through the library's own kernels (cuDNN, oneDNN), layer by layer, so
that dropout between layers is drawn as everywhere else. Rows are padded at the right: the forward direction reaches the padding
after the last word, where its outputs are not used; the backward direction reads every row reversed within its own length. So the
host needs no lengths.

Dims: B and R rows, M and L words, I inputs of a step that are not known before, D width, G gates side by side, N layers, P parts
of what a cell carries (h; of an LSTM h and c).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.recurrent.deferred_grad import Late

Carried = tuple[Tensor, ...]  # of one layer: h_RD, and of an LSTM c_RD


class Own(NamedTuple):
    """Parameters of one layer, all gates side by side."""

    inputs_GI: Tensor
    carried_GD: Tensor
    inputs_bias_G: Tensor
    carried_bias_G: Tensor


def own(layer: nn.LSTM | nn.GRU) -> Own:
    return Own(*layer.all_weights[0])


class Cells:
    """The layers of a recurrence as steps of one pass. Of each input of the first layer, the first `known` numbers come early."""

    def __init__(self, layers: Sequence[nn.LSTM | nn.GRU], known: int, dropout: nn.Dropout) -> None:
        self.dropout = dropout
        early = [known] + [0] * (len(layers) - 1)
        self.cells = [_LSTM(layer, n) if isinstance(layer, nn.LSTM) else _GRU(layer, n) for layer, n in zip(layers, early)]

    def known(self, x_LRE: Tensor) -> Tensor:
        """Return known_LRG: the part of the first layer's gates that the known inputs of all words give."""
        return self.cells[0].known(x_LRE)

    def __call__(self, known_RG: Tensor | None, x_RI: Tensor, carried: Sequence[Carried]) -> list[Carried]:
        """Return the next state of each layer; known_RG is None if no input was known before the loop."""
        found: list[Carried] = []
        for n, (cell, before) in enumerate(zip(self.cells, carried)):
            if n:
                known_RG, x_RI = None, self.dropout(found[-1][0])
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

    def __call__(self, known_RG: Tensor | None, x_RI: Tensor, carried: Carried) -> Carried:
        h_RD, c_RD = carried
        known_RG = self.bias_G if known_RG is None else known_RG
        return lstm(known_RG.to(c_RD.dtype), self.product(torch.cat([x_RI, h_RD], 1)).to(c_RD.dtype), c_RD)


class _GRU:
    def __init__(self, layer: nn.GRU, known: int) -> None:
        inputs_GI, carried_GD, bias_G, carried_bias_G = own(layer)
        self.early_GE, late_GI = inputs_GI.tensor_split([known], 1)
        self.early_bias_G = bias_G if known else None
        self.product, self.carried = Late(late_GI, None if known else bias_G), Late(carried_GD, carried_bias_G)

    def known(self, x_LRE: Tensor) -> Tensor:
        return F.linear(x_LRE, self.early_GE, self.early_bias_G)

    def __call__(self, known_RG: Tensor | None, x_RI: Tensor, carried: Carried) -> Carried:
        (h_RD,) = carried
        given_RG, carried_RG = self.product(x_RI, known_RG), self.carried(h_RD)
        return (gru(given_RG.to(h_RD.dtype), carried_RG.to(h_RD.dtype), h_RD),)


def lstm(given_RG: Tensor, carried_RG: Tensor, c_RD: Tensor) -> Carried:
    """Return h and c, by one fused kernel where there is one."""
    given_RG = given_RG.expand_as(carried_RG)
    if torch.compiler.is_compiling():
        i_RD, f_RD, g_RD, o_RD = (given_RG + carried_RG).chunk(4, 1)
        next_RD = f_RD.sigmoid() * c_RD + i_RD.sigmoid() * g_RD.tanh()
        return o_RD.sigmoid() * next_RD.tanh(), next_RD
    if c_RD.is_cuda:
        return torch.ops.aten._thnn_fused_lstm_cell(given_RG.contiguous(), carried_RG, c_RD)[:2]
    return LSTMGates.apply(given_RG, carried_RG, c_RD)


def gru(given_RG: Tensor, carried_RG: Tensor, h_RD: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        (r_RD, z_RD, n_RD), (r_carried_RD, z_carried_RD, n_carried_RD) = given_RG.chunk(3, 1), carried_RG.chunk(3, 1)
        n_RD = (n_RD + (r_RD + r_carried_RD).sigmoid() * n_carried_RD).tanh()
        return torch.lerp(n_RD, h_RD, (z_RD + z_carried_RD).sigmoid())
    if h_RD.is_cuda:
        return torch.ops.aten._thnn_fused_gru_cell(given_RG.contiguous(), carried_RG, h_RD)[0]
    return GRUGates.apply(given_RG, carried_RG, h_RD)


def read_gru(layer: nn.GRU, x_BLI: Tensor, h_BD: Tensor | None) -> Tensor:
    """Return h_BLD at every word of known inputs; the first state is h_BD, or zeros."""
    inputs_GI, carried_GD, inputs_bias_G, carried_bias_G = own(layer)
    h_BD = x_BLI.new_zeros(len(x_BLI), layer.hidden_size) if h_BD is None else h_BD
    carry, found = Late(carried_GD, carried_bias_G), []
    for known_BG in F.linear(x_BLI.transpose(0, 1), inputs_GI, inputs_bias_G).unbind(0):
        h_BD = gru(known_BG.to(h_BD.dtype), carry(h_BD).to(h_BD.dtype), h_BD)
        found.append(h_BD)
    return torch.stack(found, 1)


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


CellKind = Literal["lstm", "gru"]
KINDS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
PARTS = {"lstm": 2, "gru": 1}
GATES = {"lstm": 4, "gru": 3}


class Recurrence(nn.Module):
    """Forward layers of LSTM or GRU cells, each on the hidden states of the layer below."""

    def __init__(self, cell: CellKind, inputs: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers: Sequence[nn.LSTM | nn.GRU] = nn.ModuleList(  # type: ignore[assignment]
            KINDS[cell](width if n else inputs, width, batch_first=True) for n in range(layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BLI: Tensor, begin_NPBD: Tensor) -> Tensor:
        """Return h_BLD of the last layer, at every word."""
        for n, (layer, begin_PBD) in enumerate(zip(self.layers, begin_NPBD)):
            x_BLI = read(layer, self.dropout(x_BLI) if n else x_BLI, begin_PBD)
        return x_BLI

    def step(self, x_RI: Tensor, carried_NPRD: Tensor) -> Tensor:
        """Return carried_NPRD after one more word; the last layer's h is carried_NPRD[-1, 0]."""
        found = []
        for layer, carried_PRD in zip(self.layers, carried_NPRD):
            if isinstance(layer, nn.LSTM):
                carried_PRD = torch.stack(torch.lstm_cell(x_RI, tuple(carried_PRD), *own(layer)))
            else:
                carried_PRD = torch.gru_cell(x_RI, carried_PRD[0], *own(layer))[None]
            x_RI = carried_PRD[0]
            found.append(carried_PRD)
        return torch.stack(found)


class RecurrentEncoder(nn.Module):
    """An encoder that reads forward, or in both directions with half of the width each."""

    def __init__(self, cell: CellKind, width: int, layers: int, *, bidirectional: bool, dropout: float) -> None:
        super().__init__()

        def way() -> Sequence[nn.LSTM | nn.GRU]:
            half = width // 2 if bidirectional else width
            return nn.ModuleList(KINDS[cell](width, half, batch_first=True) for _ in range(layers))  # type: ignore[return-value]

        self.ahead = way()
        self.back = way() if bidirectional else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BMD: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return a vector for every word, and one for the text: the last state of each direction."""
        places_BM = turned_places(lengths_B, x_BMD.shape[1])
        last_B = (lengths_B - 1)[:, None]
        for n, ahead in enumerate(self.ahead):
            x_BMD = self.dropout(x_BMD) if n else x_BMD
            ways = [read(ahead, x_BMD)]
            ends = [at_places(ways[0], last_B)]
            if self.back is not None:
                turned_BMD = read(self.back[n], at_places(x_BMD, places_BM))
                ways.append(at_places(turned_BMD, places_BM))
                ends.append(at_places(turned_BMD, last_B))
            x_BMD, end_BD = torch.cat(ways, -1), torch.cat(ends, -1).squeeze(1)
        return x_BMD, end_BD


def read(layer: nn.LSTM | nn.GRU, x_BLI: Tensor, begin_PBD: Tensor | None = None) -> Tensor:
    """Return h_BLD of one layer at every word; the first state is begin_PBD, or zeros."""
    learns = layer.training = torch.is_grad_enabled()  # cuDNN keeps what a gradient needs only then; nothing is dropped here
    if learns and isinstance(layer, nn.GRU) and x_BLI.device.type == "cpu":  # the library has no kernel of its own for it
        return read_gru(layer, x_BLI, None if begin_PBD is None else begin_PBD[0].to(x_BLI.dtype))
    if begin_PBD is None:
        return layer(x_BLI)[0]
    parts = [part_BD[None].contiguous() for part_BD in begin_PBD.to(x_BLI.dtype)]
    return layer(x_BLI, tuple(parts) if isinstance(layer, nn.LSTM) else parts[0])[0]


def turned_places(lengths_B: Tensor, length: int) -> Tensor:
    """Return places_BM that reverse each row within its words; padding stays in place."""
    place_M = torch.arange(length, device=lengths_B.device)
    return torch.where(place_M < lengths_B[:, None], lengths_B[:, None] - 1 - place_M, place_M)


def at_places(x_BMD: Tensor, places_BL: Tensor) -> Tensor:
    """Return the vectors of each row at these places."""
    return x_BMD.gather(1, places_BL[..., None].expand(-1, -1, x_BMD.shape[2]))
