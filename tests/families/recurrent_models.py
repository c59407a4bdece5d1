"""Small recurrent encoder-decoders of every kind, and inputs for them."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.families.recurrent import Recurrent, RecurrentConfig

WORDS = 13
SOS, EOS = 1, 2
CHOICES = [
    dict(attention="none", cell="lstm"),
    dict(attention="bahdanau", cell="gru"),
    dict(attention="bahdanau", cell="lstm", mixer="bilinear"),
    dict(attention="luong", cell="lstm", input_feeding=True),
    dict(attention="luong", cell="gru", mixer="additive", input_feeding=True),
    dict(attention="luong", cell="lstm", mixer="dot"),
]


def named(choice: dict) -> str:
    return " ".join(map(str, choice.values()))


def built(seed: int = 1, **choices) -> Recurrent:
    return Recurrent(RecurrentConfig(**(dict(width=8, dropout=0.0) | choices)), WORDS, WORDS, seed).eval()


def inputs(batch: int = 3, source: int = 6, target: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(2)
    lengths = torch.randint(1, source + 1, (batch,), generator=g)
    return torch.randint(4, WORDS, (batch, source), generator=g), lengths, torch.randint(4, WORDS, (batch, target), generator=g)
