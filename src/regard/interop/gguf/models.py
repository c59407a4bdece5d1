"""A LLaMA or a GPT-2 of a GGUF file: its settings and its weights by our names.

    theirs                          ours
    token_embd, position_embd       embed.tokens, embed.positions.scheme.table
    blk.N.attn_norm, ffn_norm       decoder.blocks.N.self.norm, ffn.norm
    blk.N.attn_q, attn_k, attn_v    decoder.blocks.N.self.layer.project, one below the other; GPT-2: attn_qkv
    blk.N.attn_output               decoder.blocks.N.self.layer.out
    blk.N.ffn_gate, ffn_up          decoder.blocks.N.ffn.layer.gate, expand
    blk.N.ffn_down                  decoder.blocks.N.ffn.layer.contract
    output_norm, output             decoder.norm, head.project; without `output`, the embedding

llama.cpp turns neighbouring numbers of a head against each other, we turn its halves: rows of a LLaMA's attn_q and attn_k are
put in our order. Scaled rotations of Llama 3.1 are stored as one factor for each pair; `FACTORS` are those that are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.terminal import quoted
from regard.families.gpt import GPTConfig
from regard.families.llama import LLaMAConfig
from regard.interop.gguf.container import GGUF, read_gguf
from regard.interop.gguf.tokenizer import read_tokenizer
from regard.text.tokenizer import Tokenizer

FACTORS = (8.0, 32.0)  # of Llama 3.1 and Llama 3.2, both for texts of 8,192 tokens before
LOW, HIGH, CONTEXT = 1.0, 4.0, 8192


class Read(NamedTuple):
    settings: dict[str, Any]  # of [model]
    vocabulary: int
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    decode: dict[str, Any]  # settings of [decode] that name special tokens


def read_model(path: Path) -> Read:
    """Read a file; refused if it is no LLaMA and no GPT-2 that we compute."""
    file = read_gguf(path)
    architecture = file.values.get("general.architecture")
    if architecture not in ARCHITECTURES:
        known = " and ".join(ARCHITECTURES)
        raise UserError(f"{path} has the architecture {quoted(str(architecture), 40)!r}; {known} are read.")
    settings, weights = ARCHITECTURES[architecture](file)
    tokenizer, decode = read_tokenizer(file)
    rows = len(weights["embed.tokens.weight"])
    if len(tokenizer) > rows:
        raise UserError(f"{path} has {len(tokenizer):,} tokens and vectors of {rows:,}; they do not belong together.")
    return Read(settings, rows, weights, tokenizer, decode)


def _number(file: GGUF, key: str, usual: float | None = None) -> Any:
    name = f"{file.values['general.architecture']}.{key}"
    found: Any = file.values.get(name, usual)
    if type(found) not in (int, float) or not math.isfinite(found) or found <= 0:
        raise UserError(f"{file.path} has {name}={quoted(repr(found), 40)}; a number above 0 is expected.")
    return found


def _sizes(file: GGUF) -> dict[str, Any]:
    return {
        "width": _number(file, "embedding_length"),
        "heads": _number(file, "attention.head_count"),
        "layers": _number(file, "block_count"),
        "feedforward": _number(file, "feed_forward_length"),
        "maximum_length": _number(file, "context_length"),
    }


def _taken(file: GGUF, used: set[str], name: str, shape: tuple[int, ...]) -> Tensor:
    if name not in file.tensors:
        raise UserError(f"{file.path} has no tensor {name}; it is not whole, or one of several parts: merge them first.")
    if file.tensors[name].shape != shape:
        raise UserError(f"{file.path}: {name} has the sizes {file.tensors[name].shape}, and {shape} are expected; it is damaged.")
    used.add(name)
    return file.tensor(name)


def _must_be_used(file: GGUF, used: set[str]) -> None:
    if unknown := sorted(file.tensors.keys() - used):
        raise UserError(f"{file.path} has the tensor {quoted(unknown[0], 60)}, for which this version of Regard has no place.")


def _embedding(file: GGUF, used: set[str], width: int, tied: bool) -> dict[str, Tensor]:
    rows = file.tensors["token_embd.weight"].shape[0] if "token_embd.weight" in file.tensors else 0
    words = _taken(file, used, "token_embd.weight", (rows, width))
    return {
        "embed.tokens.weight": words,
        "head.project.weight": words if tied else _taken(file, used, "output.weight", (rows, width)),
    }


def _llama(file: GGUF) -> tuple[dict[str, Any], dict[str, Tensor]]:
    sizes, used = _sizes(file), {"rope_freqs.weight"}
    if file.values.get("llama.expert_count"):
        raise UserError(f"{file.path} is a mixture of experts, which this version of Regard does not compute.")
    width, heads, layers, inner = (sizes[key] for key in ("width", "heads", "layers", "feedforward"))
    groups, tied = _number(file, "attention.head_count_kv", heads), "output.weight" not in file.tensors
    head_width = _number(file, "attention.key_length", width // heads)
    if (rotated := _number(file, "rope.dimension_count", head_width)) != head_width:
        raise UserError(f"{file.path} rotates {rotated} of {head_width} numbers of a head, which Regard does not compute.")
    weights = _embedding(file, used, width, tied) | {"decoder.norm.weight": _taken(file, used, "output_norm.weight", (width,))}
    parts = {"q": heads, "k": groups, "v": groups}
    biased = "blk.0.attn_q.bias" in file.tensors
    for n in range(layers):
        ours, theirs = f"decoder.blocks.{n}", f"blk.{n}"
        for kind, columns in (("weight", (width,)), *([("bias", ())] if biased else [])):
            found = [
                _halves(_taken(file, used, f"{theirs}.attn_{part}.{kind}", (count * head_width, *columns)), count, part)
                for part, count in parts.items()
            ]
            weights[f"{ours}.self.layer.project.{kind}"] = torch.cat(found)
        for mine, name, shape in (
            ("self.norm", "attn_norm", (width,)),
            ("self.layer.out", "attn_output", (width, heads * head_width)),
            ("ffn.norm", "ffn_norm", (width,)),
            ("ffn.layer.gate", "ffn_gate", (inner, width)),
            ("ffn.layer.expand", "ffn_up", (inner, width)),
            ("ffn.layer.contract", "ffn_down", (width, inner)),
        ):
            weights[f"{ours}.{mine}.weight"] = _taken(file, used, f"{theirs}.{name}.weight", shape)
    _must_be_used(file, used)
    config = LLaMAConfig(
        **sizes,
        kv_heads=0 if groups == heads else groups,
        head_width=0 if head_width * heads == width else head_width,
        norm_epsilon=_number(file, "attention.layer_norm_rms_epsilon", 1e-5),
        qkv_bias=biased,
        tie="output" if tied else "none",
        rotary_base=float(_number(file, "rope.freq_base", 10_000.0)),
        **_scaling(file, head_width),
    )
    return asdict(config), weights


def _halves(rows: Tensor, heads: int, part: str) -> Tensor:
    """Return the rows of queries or keys with the first numbers of all pairs of a head before the second ones."""
    if part == "v":
        return rows
    return rows.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _scaling(file: GGUF, head_width: int) -> dict[str, Any]:
    kind = file.values.get("llama.rope.scaling.type", "none")
    if kind not in ("none", "linear"):
        raise UserError(f"{file.path} scales its rotation by {quoted(str(kind), 40)!r}, which Regard does not compute.")
    if kind == "linear" and _number(file, "rope.scaling.factor", 1.0) != 1:
        return {"rotary_scaling": "linear", "rotary_factor": float(_number(file, "rope.scaling.factor"))}
    if "rope_freqs.weight" not in file.tensors:
        return {}
    found_K = file.tensor("rope_freqs.weight")
    base = _number(file, "rope.freq_base", 10_000.0)
    for factor in FACTORS:
        rate_K = base ** (-torch.arange(0, head_width, 2).double() / head_width)
        kept_K = ((CONTEXT * rate_K / (2 * math.pi) - LOW) / (HIGH - LOW)).clamp(0, 1)
        expected_K = 1 / (kept_K + (1 - kept_K) / factor)
        if found_K.shape == expected_K.shape and torch.allclose(found_K.double(), expected_K, rtol=1e-3):
            scaled = {"rotary_low": LOW, "rotary_high": HIGH, "rotary_context": CONTEXT}
            return {"rotary_scaling": "llama3", "rotary_factor": factor, **scaled}
    raise UserError(f"{file.path} scales its rotation by rope_freqs.weight as neither Llama 3.1 nor 3.2 does.")


def _gpt2(file: GGUF) -> tuple[dict[str, Any], dict[str, Tensor]]:
    sizes, used = _sizes(file), set[str]()
    width, inner, tied = sizes["width"], sizes["feedforward"], "output.weight" not in file.tensors
    weights = _embedding(file, used, width, tied)
    positions = _taken(file, used, "position_embd.weight", (sizes["maximum_length"], width))
    weights["embed.positions.scheme.table.weight"] = positions
    places: list[tuple[str, str, tuple[int, ...]]] = [("decoder.norm", "output_norm", (width,))]
    for n in range(sizes["layers"]):
        ours, theirs = f"decoder.blocks.{n}", f"blk.{n}"
        places += [
            (f"{ours}.self.norm", f"{theirs}.attn_norm", (width,)),
            (f"{ours}.self.layer.project", f"{theirs}.attn_qkv", (3 * width, width)),
            (f"{ours}.self.layer.out", f"{theirs}.attn_output", (width, width)),
            (f"{ours}.ffn.norm", f"{theirs}.ffn_norm", (width,)),
            (f"{ours}.ffn.layer.expand", f"{theirs}.ffn_up", (inner, width)),
            (f"{ours}.ffn.layer.contract", f"{theirs}.ffn_down", (width, inner)),
        ]
    for mine, name, shape in places:
        weights[f"{mine}.weight"] = _taken(file, used, f"{name}.weight", shape)
        weights[f"{mine}.bias"] = _taken(file, used, f"{name}.bias", shape[:1])
    _must_be_used(file, used)
    epsilon = _number(file, "attention.layer_norm_epsilon", 1e-5)
    return asdict(GPTConfig(**sizes, norm_epsilon=epsilon, tie="output" if tied else "none")), weights


ARCHITECTURES: dict[str, Callable[[GGUF], tuple[dict[str, Any], dict[str, Tensor]]]] = {"llama": _llama, "gpt2": _gpt2}
