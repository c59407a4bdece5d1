"""Small HRAN models of every kind, and dialogues for them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.families.hran import HRAN, HRANConfig
from regard.text.specials import EOS, SOS

WORDS, WIDTH = 12, 8
TURN = WORDS - 1
CHOICES: list[dict[str, Any]] = [
    dict(encoder="gru"),
    dict(encoder="lstm", layers=2),
    dict(encoder="transformer", heads=2, feedforward=12),
]


choices = pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice["encoder"])
SOURCES = [[4, 5, TURN, 6, TURN, 7, 8, 9, EOS], [5, 6, 4, EOS], [TURN, 9, TURN, TURN, 8, 4, EOS]]
TARGET = torch.tensor([[SOS, 4, 7, 5], [SOS, 9, 9, 4], [SOS, 5, 6, 8]])


def built(seed: int = 2, **choice: Any) -> HRAN:
    config = HRANConfig(width=WIDTH, dropout=0.0, **choice)
    model, draw = HRAN(config, WORDS, WORDS, seed).eval(), torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=draw)
    assert isinstance(model, HRAN)
    return model


def laid(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    return torch.tensor([row + [6] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


def turns_of(row: list[int]) -> list[list[int]]:
    """Places of the words of each turn, the first turn first."""
    found: list[list[int]] = [[]]
    for place, number in enumerate(row):
        if number in (TURN, EOS):
            found.append([])
        else:
            found[-1].append(place)
    return [places for places in found if places]
