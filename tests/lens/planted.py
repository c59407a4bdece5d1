"""Models whose attention is what a test says it is: one layer of one head for every matrix that is planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.lens.subject import Subject, TokenRow
from regard.model.attention import Attention, KeysValues
from regard.model.visibility import View, causal, full


class Rows:
    """A mixer that looks up what was planted: queries are one-hot, and say which row they are."""

    folds = None

    def __init__(self, weights_LM: Tensor) -> None:
        self.weights_LM = weights_LM

    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        return torch.zeros_like(q_BHLK)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        return self.weights_LM[q_BHLK.argmax(-1)]


class Planted(nn.Module):
    def __init__(self, weights: Mapping[str, np.ndarray], width: int, lengths: Mapping[str, int]) -> None:
        super().__init__()
        self.lengths, self.width = lengths, width
        self.parts = nn.ModuleList()
        for name, matrix in weights.items():
            cross = name.endswith(".cross")
            rows = Rows(torch.from_numpy(np.asarray(matrix, np.float32)))
            attention = Attention(width, 1, mixer=rows, dropout=0.0, name=name, cross=cross)
            for layer in (attention.query, attention.project) if cross else (attention.project,):
                assert layer is not None
                layer.weight.data = torch.eye(width).repeat(layer.weight.shape[0] // width, 1)
                nn.init.zeros_(layer.bias)
            self.parts.append(attention)

    def forward(self, copies: int) -> Tensor:
        x_BLD = torch.eye(self.width)
        for attention in self.parts:
            assert isinstance(attention, Attention)
            stack = attention.name.partition(".")[0]
            length = self.lengths[stack]
            if attention.name.endswith(".cross"):
                memory = self.lengths["encoder"]
                kept = KeysValues(*(torch.eye(self.width)[:memory].expand(copies, 1, -1, -1) for _ in range(2)))
                view = full.over(length, memory, batch=copies, device=torch.device("cpu"))
                attention(x_BLD[:length].expand(copies, -1, -1), view, kept)
            else:
                pattern = causal if stack == "decoder" else full
                attention(x_BLD[:length].expand(copies, -1, -1), pattern.over(length, length, device=torch.device("cpu")))
        return torch.zeros(copies, length, 2)


def planted(weights: Mapping[str, np.ndarray], sides: Mapping[str, TokenRow], title: str = "planted") -> Subject:
    lengths = {stack: len(side) for stack, side in sides.items()}
    model = Planted(weights, max(lengths.values()), lengths)
    return Subject(model, title, sides, model, torch.zeros(lengths[next(reversed(lengths))], dtype=torch.long), None, str, None)


def looks_at(keys: Sequence[int], memory: int, weight: float = 1.0) -> np.ndarray:
    """A matrix whose rows have this weight on one key each; what is left lies evenly on all keys."""
    found = np.full((len(keys), memory), (1 - weight) / memory)
    found[np.arange(len(keys)), list(keys)] += weight
    return found
