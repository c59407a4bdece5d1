"""LLaMA and its relatives as they are public: `llama`, `mistral`, `qwen2` and `qwen3` of transformers.

One body under four names. Mistral's `sliding_window` counts the token itself, our `window(radius)` does not. Rotations are
written two ways: `rope_theta` with `rope_scaling` (transformers 4 and most other programs) and `rope_parameters` (transformers
5); both are read, and both are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families.llama import LLaMAConfig
from regard.interop.huggingface.mapping import (
    COMMON,
    Blocks,
    Choice,
    Config,
    Entry,
    Flag,
    Layout,
    Meaning,
    Number,
    Only,
    Raw,
    Settings,
    ignored,
    matrix,
    scale,
    table,
)
from regard.model.visibility import Full, Window
from regard.model.visibility.parse import parse_visibility

ROPE = {  # keys of a rotation -> ours; other keys may change the mathematics
    "factor": "rotary_factor",
    "low_freq_factor": "rotary_low",
    "high_freq_factor": "rotary_high",
    "original_max_position_embeddings": "rotary_context",
}
USED = {"default": (), "linear": ("factor",), "llama3": tuple(ROPE)}  # by each kind of scaling
ROTARY = ("rotary_base", "rotary_scaling", *ROPE.values())
THEIRS = ("rope_theta", "rope_scaling", "rope_parameters", "window", "window_used", "window_from", "layer_types", "tied")
ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh", "gelu": "gelu"}

KEYS: dict[str, Meaning] = {
    **COMMON,
    "vocab_size": Number("vocabulary", 32_000),
    "hidden_size": Number("width", 4096),
    "intermediate_size": Number("feedforward", 11_008),
    "num_hidden_layers": Number("layers", 32),
    "num_attention_heads": Number("heads", 32),
    "num_key_value_heads": Number("kv_heads", None),
    "head_dim": Number("head_width", None),
    "hidden_act": Choice("activation", ACTIVATIONS, "silu"),
    "max_position_embeddings": Number("maximum_length", 2048),
    "rms_norm_eps": Number("norm_epsilon", 1e-6, whole=False),
    "attention_dropout": Number("attention_dropout", 0.0, whole=False),
    "rope_theta": Raw("rope_theta"),
    "rope_scaling": Raw("rope_scaling"),
    "rope_parameters": Raw("rope_parameters"),
    "tie_word_embeddings": Flag("tied", False),
    "attention_bias": Only((False,)),
    "mlp_bias": Only((False,)),
    **ignored("pretraining_tp"),
}

BLOCK = (
    *scale("self.norm", "input_layernorm"),
    *matrix("self.layer.project", "self_attn.q_proj,self_attn.k_proj,self_attn.v_proj", "I+2K", "D", "I K K"),
    Entry(
        "self.layer.project.bias",
        ("self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"),
        ("biased I+2K",),
        parts=("I", "K", "K"),
    ),
    *scale("self.layer.query_norm", "self_attn.q_norm", "normed K"),
    *scale("self.layer.key_norm", "self_attn.k_norm", "normed K"),
    *matrix("self.layer.out", "self_attn.o_proj", "D", "I"),
    *scale("ffn.norm", "post_attention_layernorm"),
    *matrix("ffn.layer.gate", "mlp.gate_proj", "F", "D"),
    *matrix("ffn.layer.expand", "mlp.up_proj", "F", "D"),
    *matrix("ffn.layer.contract", "mlp.down_proj", "D", "F"),
)


def _ours(settings: Settings) -> Settings:
    rest = {key: value for key, value in settings.items() if key not in THEIRS}
    usual = {"kv_heads": settings["heads"], "head_width": settings["width"] // settings["heads"]}
    rest |= {key: 0 for key, value in usual.items() if rest.get(key) == value}  # which is our default, said once
    return {**rest, **_rotation(settings), "visibility": _seen(settings), "tie": "output" if settings["tied"] else "none"}


def _rotation(settings: Settings) -> Settings:
    """Return our keys of a rotation, from `rope_parameters` or from `rope_theta` and `rope_scaling`."""
    found = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    if not isinstance(found, dict):
        raise UserError(f"rope_parameters={str(found)[:60]!r}; the names and numbers of a rotation are expected.")
    given = dict(found)
    base = given.pop("rope_theta", settings.get("rope_theta", 10_000.0))
    kinds = {str(given.pop(key)) for key in ("rope_type", "type") if key in given} or {"default"}
    kind = " and ".join(sorted(kinds))
    if kind not in USED:
        known = ", ".join(USED)
        raise UserError(f"positions are rotated by {kind!r}, which this version of Regard does not compute; it knows {known}.")
    if given.pop("partial_rotary_factor", 1.0) != 1.0:
        raise UserError("partial_rotary_factor rotates a part of each head, which this version of Regard does not compute.")
    if unknown := [key for key in given if key not in USED[kind]]:
        value = given[unknown[0]]
        raise UserError(f"the rotation {kind!r} has {unknown[0]}={value!r}, which this version of Regard does not know.")
    if missing := [key for key in USED[kind] if key not in given]:
        raise UserError(f"the rotation {kind!r} has no {missing[0]}, which it needs.")
    values = {ROPE[key]: value for key, value in given.items()} | {"rotary_base": base}
    if wrong := [key for key, value in values.items() if type(value) not in (int, float)]:
        raise UserError(f"the rotation has {wrong[0]}={values[wrong[0]]!r}; a number is expected.")
    scaling = {"default": "none"}.get(kind, kind)
    numbers = {key: int(value) if key == "rotary_context" else float(value) for key, value in values.items()}
    return {**numbers, "rotary_scaling": scaling}


def _seen(settings: Settings) -> str:
    """Return the visibility that all layers have; those with several are refused."""
    layers, window = settings["layers"], settings.get("window")
    if not settings.get("window_used", True):
        window = None
    types = settings.get("layer_types") or []
    kinds = set(map(str, types)) if isinstance(types, list) else {str(types)}
    if not kinds and window is not None:
        full_layers = min(settings.get("window_from", 0), layers)
        kinds = ({"full_attention"} if full_layers else set()) | ({"sliding_attention"} if full_layers < layers else set())
    if kinds - {"full_attention", "sliding_attention"} or len(kinds) > 1:
        raise UserError(f"layers see {' and '.join(sorted(kinds))}; in this version of Regard all layers see alike.")
    if window is None or kinds == {"full_attention"}:
        return "full"
    if type(window) is not int or window < 1:
        raise UserError(f"sliding_window={window!r}; a whole number of at least 1 is expected.")
    return str(Window(window - 1))


def _theirs(settings: Settings) -> Settings:
    rest = {key: value for key, value in settings.items() if key not in (*ROTARY, "tie", "visibility")}
    kind = settings["rotary_scaling"]
    scaling = {"rope_type": "default" if kind == "none" else kind}
    scaling |= {key: settings[ROPE[key]] for key in USED[scaling["rope_type"]]}
    pattern = parse_visibility(settings["visibility"])
    width, types = settings["width"] // settings["heads"], None
    if isinstance(pattern, Window):
        types = ["sliding_attention"] * settings["layers"]
    elif not isinstance(pattern, Full):
        rest["visibility"] = settings["visibility"]  # which no key says, so that it is refused
    return {
        **rest,
        "kv_heads": settings["kv_heads"] or settings["heads"],
        "head_width": settings["head_width"] or width,
        "rope_theta": settings["rotary_base"],
        "rope_scaling": None if kind == "none" else scaling,
        "rope_parameters": {"rope_theta": settings["rotary_base"], **scaling},
        "tied": settings["tie"] == "output",
        "window": pattern.radius + 1 if isinstance(pattern, Window) else None,
        "window_used": isinstance(pattern, Window),
        "window_from": 0 if isinstance(pattern, Window) else settings["layers"],
        "layer_types": types or ["full_attention"] * settings["layers"],
    }


def _as_stored(config: Config, heads: Sequence[str], tensors: Mapping[str, Tensor]) -> Config:
    """Treat the two matrices as two where both are stored and differ, whatever config.json says: so does transformers."""
    head, words = tensors.get("lm_head.weight"), tensors.get("embed_tokens.weight")
    apart = head is not None and words is not None and not (head.shape == words.shape and torch.equal(head, words))
    assert isinstance(config, LLaMAConfig)
    return replace(config, tie="none") if apart else config


def _implied(settings: Settings) -> Settings:
    return {"mixer": "softmax", "norm_placement": "pre", "qkv_bias": False, "qk_norm": False}


LLAMA = Layout(
    model_type="llama",
    architectures={"LlamaForCausalLM": ()},
    config=LLaMAConfig,
    keys=KEYS,
    implied=_implied,
    prefix="model.",
    whole=(
        *table("embed.tokens", "embed_tokens", "V"),
        *scale("decoder.norm", "norm"),
        *table("head.project", "lm_head", "tied T", tied="embed.tokens.weight", inside=False),
        *table("head.project", "lm_head", "own T", inside=False),
    ),
    blocks=(Blocks("decoder.blocks", "layers", BLOCK),),
    buffers=("rotary_emb.inv_freq",),
    ours=_ours,
    theirs=lambda settings: {**_theirs(settings), "visibility": settings["visibility"]},  # which no key says
    fitted=_as_stored,
    always={"attention_bias": False, "mlp_bias": False, "pretraining_tp": 1},
)
MISTRAL = replace(
    LLAMA,
    model_type="mistral",
    architectures={"MistralForCausalLM": ()},
    keys={
        **{key: meaning for key, meaning in KEYS.items() if key not in ("attention_bias", "mlp_bias", "pretraining_tp")},
        "intermediate_size": Number("feedforward", 14_336),
        "num_key_value_heads": Number("kv_heads", 8),
        "max_position_embeddings": Number("maximum_length", 131_072),
        "sliding_window": Raw("window", 4096),
    },
    theirs=_theirs,
    always={},
)
WINDOWS: dict[str, Meaning] = {
    "sliding_window": Raw("window"),
    "use_sliding_window": Flag("window_used", False),
    "max_window_layers": Number("window_from", 28, least=0),
    "layer_types": Raw("layer_types"),
}
QWEN2 = replace(
    LLAMA,
    model_type="qwen2",
    architectures={"Qwen2ForCausalLM": ()},
    keys={
        **MISTRAL.keys,
        "vocab_size": Number("vocabulary", 151_936),
        "intermediate_size": Number("feedforward", 22_016),
        "num_key_value_heads": Number("kv_heads", 32),
        "max_position_embeddings": Number("maximum_length", 32_768),
        **WINDOWS,
        "use_mrope": Only((False,)),
    },
    implied=lambda settings: {**_implied(settings), "qkv_bias": True},
    theirs=_theirs,
    always={},
)
QWEN3 = replace(
    QWEN2,
    model_type="qwen3",
    architectures={"Qwen3ForCausalLM": ()},
    keys={**QWEN2.keys, "head_dim": Number("head_width", 128), "attention_bias": Only((False,))},
    implied=lambda settings: {**_implied(settings), "qk_norm": True},
    always={"attention_bias": False},
)


def layout_for(config: Any) -> Layout:
    """Return the layout that has these parts."""
    if config.qk_norm:
        return QWEN3
    if config.qkv_bias:
        return QWEN2
    return MISTRAL if isinstance(parse_visibility(config.visibility), Window) else LLAMA
