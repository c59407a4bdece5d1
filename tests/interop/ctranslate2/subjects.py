"""Small models of each family with random weights, ready to be exported, and the folders that they become."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard.families import FAMILIES
from regard.families.base import Heads, Sizes
from regard.interop.ctranslate2.models import write_folder
from regard.interop.exported import ExportedModel
from regard.text.tokenizer import Tokenizer, train_tokenizer
from tests.families.public_folder import shaken

SMALL: dict[str, Any] = dict(width=32, heads=4, layers=2, feedforward=48, dropout=0.0)
T5_1_1: dict[str, Any] = dict(
    head_width=16, feedforward_kind="gated", activation="gelu_tanh", tie="inputs", scaled_head=False, decoder_layers=3
)
TRANSLATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {}),
    "transformer, pre-norm, learned, untied": (
        "transformer",
        dict(norm_placement="pre", position="learned", activation="gelu", tie="none"),
    ),
    "transformer, rotary, grouped": ("transformer", dict(position="rotary", kv_heads=2)),
    "marian": ("marian", {}),
    "bart": ("bart", {}),
    "mbart": ("bart", dict(norm_placement="pre", scaled_embeddings=True)),
    "t5": ("t5", dict(head_width=8)),
    "t5 1.1": ("t5", T5_1_1),
}
WRITERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt", {}),
    "gpt, post-norm, no positions": ("gpt", dict(norm_placement="post", position="none")),
    "gpt, alibi": ("gpt", dict(position="alibi")),
    "gpt, relative": ("gpt", dict(position="relative")),
    "llama": ("llama", {}),
    "llama, grouped": ("llama", dict(kv_heads=2, head_width=16)),
    "llama, stretched": ("llama", dict(rotary_scaling="linear", rotary_factor=4.0)),
    "llama 3.1": ("llama", dict(rotary_scaling="llama3", rotary_factor=8.0, rotary_context=16)),
    "qwen2": ("llama", dict(qkv_bias=True)),
    "qwen3": ("llama", dict(qk_norm=True)),
}
READERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {}),
    "distilbert": ("bert", dict(segments=0, pooler="relu")),
    "roberta": ("bert", dict(segments=1, first_position=2)),
    "encoder": ("encoder", {}),
}
EVERY = TRANSLATORS | WRITERS | READERS


@cache
def tokenizer() -> Tokenizer:
    texts = ["the cat sees the dog .", "le chat voit le chien", "hello world", "abcdefghij klmnop"]
    return train_tokenizer("bpe", texts * 3, 80, lowercase=False, minimum_count=1)


def subject(name: str) -> ExportedModel:
    """Return one of `EVERY`; its vocabulary has three rows without a piece."""
    family, choices = EVERY[name]
    return subject_of(family, choices)


def subject_of(family: str, choices: dict[str, Any]) -> ExportedModel:
    read = tokenizer()
    config = FAMILIES[family].config(**(SMALL | choices))
    sizes = Sizes(vocabulary=len(read) + 3, heads=Heads(pooler=True))
    model = shaken(FAMILIES[family].build(config, sizes, 0), 0.2)
    roles = read.roles
    assert roles.sos is not None
    assert roles.pad is not None
    return ExportedModel("runs/tiny", model, read, start=roles.sos, end=roles.eos, pad=roles.pad)


def written(one: ExportedModel, folder: Path, quantization: str = "float32") -> Path:
    folder.mkdir()
    with torch.no_grad():
        write_folder(folder, one, {}, quantization)
    return folder
