"""CTranslate2 with our weights, through its own model specification."""

from __future__ import annotations

from pathlib import Path

import ctranslate2
import numpy as np
import torch
from torch import nn

from regard.families.transformer import Transformer
from regard.model.attention import Attention
from regard.model.block import Block


def save(ours: Transformer, folder: Path, quantization: str | None = None) -> list[str]:
    """Write the model; tokens are named by their numbers. Returns the vocabulary."""
    c = ours.config
    spec = ctranslate2.specs.TransformerSpec.from_config(c.depth, c.heads, pre_norm=c.norm_placement == "pre")
    vocabulary = [f"w{n}" for n in range(ours.source.tokens.num_embeddings)]
    vocabulary[:4] = ["<pad>", "<s>", "</s>", "<unk>"]
    positions = ours.source.positions(torch.arange(512))
    assert positions is not None
    for side, stack, embed in ((spec.encoder, ours.encoder, ours.source), (spec.decoder, ours.decoder, ours.target)):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = _array(embed.tokens.weight)
        embeddings.multiply_by_sqrt_depth = True
        side.position_encodings.encodings = _array(positions)
        for layer, block in zip(side.layer, stack.blocks):
            _block(layer, block)
    spec.decoder.projection.weight = _array(ours.head.project.weight)
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return vocabulary


def _block(layer: object, block: Block) -> None:
    _attention(layer.self_attention, block.self_attention)
    _norm(layer.self_attention.layer_norm, block["self"].norm)
    if block.cross_attention is not None:
        _attention(layer.attention, block.cross_attention)
        _norm(layer.attention.layer_norm, block["cross"].norm)
    _linear(layer.ffn.linear_0, block.feedforward.expand)
    _linear(layer.ffn.linear_1, block.feedforward.contract)
    _norm(layer.ffn.layer_norm, block["ffn"].norm)


def _attention(spec: object, ours: Attention) -> None:
    layers = [ours.project, ours.out] if ours.query is None else [ours.query, ours.project, ours.out]
    for part, layer in zip(spec.linear, layers):
        _linear(part, layer)


def _linear(spec: object, ours: nn.Linear) -> None:
    spec.weight, spec.bias = _array(ours.weight), _array(ours.bias)


def _norm(spec: object, ours: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(ours.weight), _array(ours.bias)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy().copy()
