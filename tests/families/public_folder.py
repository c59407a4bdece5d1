"""A small model of ours as a public folder, for tests to open and to spoil."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.families.gpt import GPT, GPTConfig
from regard.interop.huggingface import write_public

SMALL: dict[str, Any] = dict(width=24, heads=3, layers=2, feedforward=96, maximum_length=96, dropout=0.0)
ROLES = {"pad": "<pad>", "bos": "<sos>", "eos": "<eos>", "unk": "<unk>"}
TEXT = ["the animal did not cross the street", "because it was too tired", "naïve café, 漢字 and 🙂", "  two  spaces\nand a line"]


def shaken(model: nn.Module, size: float = 0.4) -> Any:
    """Biases and norms start at 0 and 1, and matrices near 0, where a mistake would not show."""
    draw = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += size * torch.randn(parameter.shape, generator=draw)
    return model.eval()


def byte_tokenizer(pieces: int = 300) -> str:
    """Byte-level BPE, with the special tokens that begin every vocabulary here."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    specials = ["<pad>", "<sos>", "<eos>", "<unk>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=pieces, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT * 3, trainer)
    return str(tokenizer.to_str())


TOKENIZER = byte_tokenizer()
VOCABULARY = len(tokenizers.Tokenizer.from_str(TOKENIZER).get_vocab())


def export(folder: Path, model: GPT) -> Path:
    write_public(folder, model.config, VOCABULARY, model.state_dict(), tokenizer_json=TOKENIZER, roles=ROLES)
    return folder


def small_gpt(norm: str = "pre", **settings: Any) -> GPT:
    return shaken(GPT(GPTConfig(**{**SMALL, "norm_placement": norm, **settings}), VOCABULARY))


def change_config(folder: Path, **keys: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})
