"""What the tests of position schemes share: settings of each scheme, copied weights, and decoding by hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.families.gpt import GPTConfig

SCHEMES = ("sinusoidal", "learned", "none", "rotary", "relative", "alibi", "transformer-xl")


def shared_data(name: str) -> Path:
    """Return a folder or file under $REGARD_DATA; skip the test where it is not there."""
    found = Path(os.environ.get("REGARD_DATA", ""), name)
    if "REGARD_DATA" not in os.environ or not found.exists():
        pytest.skip(f"needs {name} under $REGARD_DATA")
    return found


@torch.no_grad()
def cached(model: nn.Module, source: tuple[Tensor, Tensor], target_BL: Tensor, *, lanes: int = 1, fixed: bool = False) -> Tensor:
    """Return logits_BLV of cached decoding, token by token; every lane is given the same tokens."""
    reading = model.start(*source)
    state = reading.make_state(len(target_BL), lanes, target_BL.shape[1], fixed=fixed)
    state.load(reading, [target_BL.shape[1]] * len(target_BL))
    logits = []
    for t in range(target_BL.shape[1]):
        state.grow(1)
        logits.append(state.step(target_BL[:, t : t + 1].expand(-1, lanes))[:, :1])
        state.select(torch.arange(lanes, device=target_BL.device).flip(0).expand(len(target_BL), -1))
    return torch.cat(logits, 1)


def llama_weights(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """Return the weights of a transformers' Llama by our names."""
    found = {"embed.tokens.weight": theirs["model.embed_tokens.weight"], "decoder.norm.weight": theirs["model.norm.weight"]}
    found["head.project.weight"] = found["embed.tokens.weight"]
    for n in range(config.layers):
        ours, other = f"decoder.blocks.{n}", f"model.layers.{n}"
        parts = [theirs[f"{other}.self_attn.{part}_proj.weight"] for part in "qkv"]
        found[f"{ours}.self.layer.project.weight"] = torch.cat(parts)
        found[f"{ours}.self.layer.out.weight"] = theirs[f"{other}.self_attn.o_proj.weight"]
        found[f"{ours}.self.norm.weight"] = theirs[f"{other}.input_layernorm.weight"]
        found[f"{ours}.ffn.norm.weight"] = theirs[f"{other}.post_attention_layernorm.weight"]
        for part, name in (("expand", "up"), ("gate", "gate"), ("contract", "down")):
            found[f"{ours}.ffn.layer.{part}.weight"] = theirs[f"{other}.mlp.{name}_proj.weight"]
    return found
