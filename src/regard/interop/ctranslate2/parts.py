"""Each part of a model as the variables of CTranslate2 that mean the same, or a sentence that says why there are none.

    ours                                  theirs, below the name of the layer
    Residual.norm                         layer_norm/gamma, and beta unless it is a root-mean-square norm
    Attention.project (q, k, v in rows)   linear_0; in cross-attention linear_0 has the queries and linear_1 keys and values
    FeedForward.gate, expand              linear_0 (activated) and linear_0_noact; without a gate, expand is linear_0
    Attention(scaled=False)               queries_scale 1, where the default is one by the root of the head width
    Rotary                                rotary_dim 0: whole heads, their halves turned against each other
    RelativeBias                          relative_attention_bias, repeated in every layer under other names

CTranslate2 adds positions from a table, so waves are written as one, of `POSITIONS` rows; without positions it has zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.embedding import Learned, Pixels, Sinusoidal
from regard.model.position.relative import ALiBi, RelativeBias, Rotary
from regard.model.visibility import Causal, Full

Variables = Iterator[tuple[str, Tensor]]
POSITIONS = 4096  # rows of a table of waves
ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3, "quick_gelu": 4, "tanh": 5}
ROTATIONS = {"linear": 0, "llama3": 2}


def number(value: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(value, dtype=dtype)


def refuse(what: str) -> UserError:
    return UserError(f"CTranslate2 does not compute {what}, so this model cannot be exported there.")


def norm(name: str, module: nn.Module) -> Variables:
    yield f"{name}/gamma", module.weight  # type: ignore[misc]
    if getattr(module, "bias", None) is not None:
        yield f"{name}/beta", module.bias  # type: ignore[misc]


def linear(name: str, module: nn.Module) -> Variables:
    yield f"{name}/weight", module.weight  # type: ignore[misc]
    if module.bias is not None:
        yield f"{name}/bias", module.bias  # type: ignore[misc]


def embedding(stack: str, embed: Any, tables: tuple[str, ...]) -> Variables:
    """Yield the words, the segments where there are some, the positions and the norm of what a stack reads."""
    if embed.concat:
        raise refuse("positions beside the words, model.join=concat")
    if embed.widen is not None:
        raise refuse("words that are narrower than the model, model.embedding_width")
    words, *segments = tables
    yield f"{stack}/{words}/weight", embed.tokens.weight
    if segments:
        yield f"{stack}/{segments[0]}/weight", embed.segments.weight
    yield f"{stack}/scale_embeddings", number(embed.scale)
    if embed.norm is not None:
        yield from norm(f"{stack}/layernorm_embedding", embed.norm)


def positions(stack: str, embed: Any, inside: Any) -> Variables:
    """Yield the table of positions, unless a scheme inside attention gives them."""
    scheme = embed.positions.scheme
    if inside is not None:
        return
    if isinstance(scheme, Pixels):
        raise refuse("positions of pixels by row and column, model.columns")
    if isinstance(scheme, Learned):
        table_PD = scheme.table.weight[scheme.first :]
    elif isinstance(scheme, Sinusoidal):
        table_PD = scheme.embed(torch.arange(POSITIONS))
    else:
        table_PD = torch.zeros(POSITIONS, embed.tokens.embedding_dim)
    yield f"{stack}/position_encodings/encodings", table_PD


def stack(name: str, config: Any, module: Any, causal: bool) -> Variables:
    """Yield the blocks of a stack, the norm at its end and the settings that its blocks share."""
    if config.mixer != "softmax":
        raise refuse(f"model.mixer={config.mixer}")
    if config.activation not in ACTIVATIONS:
        raise refuse(f"model.activation={config.activation}")
    yield f"{name}/num_heads", number(config.heads, torch.int16)
    yield f"{name}/pre_norm", number(config.norm_placement == "pre", torch.int8)
    yield f"{name}/activation", number(ACTIVATIONS[config.activation], torch.int8)
    if module.norm is not None:
        yield from norm(f"{name}/layer_norm", module.norm)
    if isinstance(module.position, ALiBi):
        if not causal:
            raise refuse("model.position=alibi in an encoder")
        yield f"{name}/alibi", number(1, torch.int8)
        yield f"{name}/alibi_use_positive_positions", number(0, torch.int8)
        yield f"{name}/scale_alibi", number(0, torch.int8)
    for n, block in enumerate(module.blocks):
        layer = f"{name}/layer_{n}"
        yield from attention(f"{layer}/self_attention", block["self"])
        yield from placed(f"{layer}/self_attention", config, module.position)
        if "cross" in block:
            yield from attention(f"{layer}/attention", block["cross"])
        yield from feedforward(f"{layer}/ffn", block["ffn"])


def attention(name: str, residual: Any) -> Variables:
    layer = residual.layer
    layers = [layer.project, layer.out] if layer.query is None else [layer.query, layer.project, layer.out]
    yield from norm(f"{name}/layer_norm", residual.norm)
    for n, module in enumerate(layers):
        yield from linear(f"{name}/linear_{n}", module)
    if not layer.scaled:
        yield f"{name}/queries_scale", number(1)
    if layer.heads * layer.head_width != layer.width:
        yield f"{name}/head_dim", number(layer.head_width, torch.int32)
    if layer.kv_heads != layer.heads:
        yield f"{name}/num_heads_kv", number(layer.kv_heads, torch.int32)
    if layer.query_norm is not None:
        yield from norm(f"{name}/q_norm", layer.query_norm)
        yield from norm(f"{name}/k_norm", layer.key_norm)


def placed(name: str, config: Any, position: Any) -> Variables:
    """Yield what a position scheme does in one self-attention."""
    if isinstance(position, Rotary):
        yield f"{name}/rotary_dim", number(0, torch.int32)
        yield f"{name}/rotary_interleave", number(0, torch.int8)
        yield f"{name}/rotary_base", number(config.rotary_base)
        if config.rotary_scaling != "none":
            yield f"{name}/rotary_scaling_type", number(ROTATIONS[config.rotary_scaling], torch.int8)
            yield f"{name}/rotary_scaling_factor", number(config.rotary_factor)
        if config.rotary_scaling == "llama3":
            yield f"{name}/rotary_low_freq_factor", number(config.rotary_low)
            yield f"{name}/rotary_high_freq_factor", number(config.rotary_high)
            yield f"{name}/original_max_position_embeddings", number(config.rotary_context, torch.int32)
    elif isinstance(position, RelativeBias):
        yield f"{name}/relative_attention_bias", position.table.weight
        yield f"{name}/relative_attention_max_distance", number(config.farthest, torch.int32)
    elif position is not None and not isinstance(position, ALiBi):
        raise refuse(f"model.position={config.position}")


def feedforward(name: str, residual: Any) -> Variables:
    layer = residual.layer
    yield from norm(f"{name}/layer_norm", residual.norm)
    if getattr(layer, "gate", None) is None:
        yield from linear(f"{name}/linear_0", layer.expand)
    else:
        yield from linear(f"{name}/linear_0", layer.gate)
        yield from linear(f"{name}/linear_0_noact", layer.expand)
    yield from linear(f"{name}/linear_1", layer.contract)


def head(name: str, module: Any) -> Variables:
    yield from linear(f"{name}/projection", module.project)
    if module.before is not None:
        yield f"{name}/scale_outputs", number(module.before.factor)


def must_see_everything(pattern: Any, written: str) -> None:
    """Refuse a pattern other than all tokens, or all before a token."""
    if not all(isinstance(part, Full | Causal) for part in pattern.parts):
        raise refuse(f"model.visibility={written}")
