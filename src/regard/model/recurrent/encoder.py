"""Recurrent encoders: LSTM and GRU layers over whole sequences, in one direction or both.

Whole sequences go through the library's own kernels (cuDNN, oneDNN), layer by layer, so that dropout between layers is drawn as
everywhere else. Rows are padded at the right: the forward direction reaches the padding after the last word, where its outputs
are not used; the backward direction reads every row reversed within its own length. So the host needs no lengths.

Dims: B rows, M and L words, D width, N layers, P parts of what a cell carries (h; of an LSTM h and c).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from regard.model.recurrent.cells import own, read_gru

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
