"""Small language models of many kinds, with prompts, for tests that compare one way of decoding with another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.families import build_model
from regard.families.bart import BARTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.t5 import T5Config
from regard.families.transformer import Transformer, TransformerConfig
from tests.families.public_folder import shaken

WORDS = 23
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "grouped, rotary": {"position": "rotary", "kv_heads": 1},
    "sinusoidal, post-norm": {"position": "sinusoidal", "norm_placement": "post"},
    "distances": {"position": "alibi"},
    "window": {"visibility": "window(3)"},
    "window, rotary": {"visibility": "window(2)", "position": "rotary", "kv_heads": 1},
    "window, distances": {"visibility": "window(4)", "position": "alibi"},
    "blocks": {"visibility": "block(4)"},
}


def language_model(kind: str = "plain", seed: int = 1, **others: Any) -> GPT:
    """Outputs far from each other, in float64: two ways to the same sum then choose the same token."""
    small: dict[str, Any] = dict(width=16, heads=2, layers=2, feedforward=24, maximum_length=64, dropout=0.0)
    return shaken(GPT(GPTConfig(**small | KINDS[kind] | others), WORDS, seed)).double().eval()


def prompts(count: int, seed: int = 0, shortest: int = 1, longest: int = 12, begin: Sequence[int] = ()) -> list[list[int]]:
    """Texts of few different words, so that parts of them occur again."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(shortest, longest + 1, (count,), generator=draw).tolist()
    return [[*begin, *torch.randint(4, 9, (length,), generator=draw).tolist()] for length in lengths]


def padded(texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """All but the last token of each text, as `start` takes them."""
    longest = max(1, max(len(text) - 1 for text in texts))
    ids_BL = torch.tensor([[*text[:-1], *[0] * (longest - len(text) + 1)] for text in texts])
    return ids_BL, torch.tensor([len(text) - 1 for text in texts])


def last(texts: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor([text[-1] for text in texts])


PAIR_KINDS: dict[str, tuple[type[TransformerConfig], dict[str, Any]]] = {
    "transformer": (TransformerConfig, {}),
    "t5": (T5Config, {"head_width": 8}),
    "bart": (BARTConfig, {"maximum_length": 40}),
    "window, grouped": (TransformerConfig, {"visibility": "window(3)", "position": "rotary", "kv_heads": 1}),
}


def pair_model(kind: str = "transformer", seed: int = 1, **others: Any) -> Transformer:
    """An encoder-decoder with outputs far from each other, in float64."""
    config, own = PAIR_KINDS[kind]
    small: dict[str, Any] = dict(width=16, heads=2, layers=2, feedforward=24, dropout=0.0)
    return shaken(build_model(config(**small | own | others), seed, vocabulary=WORDS, target_vocabulary=WORDS)).double().eval()


def sources(texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Whole texts, as an encoder-decoder's `start` takes them."""
    return padded([[*text, 0] for text in texts])
