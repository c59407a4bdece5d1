"""Small LLaMA and GPT-2 files as llama.cpp's converter writes them, by its own library, from random models of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf.quants import dequantize, quantize

from tests.families.public_folder import byte_tokenizer, shaken

SIZES = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
GPT2 = dict(n_embd=64, n_head=4, n_layer=2, n_inner=96, n_positions=48)
TYPES = {name: getattr(gguf.GGMLQuantizationType, name.upper()) for name in ("f32", "f16", "q8_0", "q4_0")}
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(64)), "▁", "▁the", "▁c", "▁ca", "▁cat", *"abcdefghijklmnopqrst"]
LLAMA_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attn_output"}
LLAMA_NAMES |= {f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"}
LLAMA_NAMES |= {f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")}
GPT2_NAMES = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm"}
GPT2_NAMES |= {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def interleaved(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Return rows of queries or keys in the order of llama.cpp."""
    return rows.reshape(heads, 2, len(rows) // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def write(path: Path, architecture: str, values: dict[str, Any], tensors: dict[str, torch.Tensor], kind: str) -> Path:
    """Write a file; matrices with rows of whole blocks in this type, all else in float32."""
    writer = gguf.GGUFWriter(str(path), architecture)
    for name, value in values.items():
        add = writer.add_array if isinstance(value, list) else writer.add_string if isinstance(value, str) else None
        if add is not None:
            add(name, value)
        elif isinstance(value, bool):
            writer.add_bool(name, value)
        else:
            (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(name, value)
    for name, tensor in tensors.items():
        array = tensor.detach().numpy().astype(np.float32)
        coded = kind if array.ndim == 2 else "f32"
        writer.add_tensor(name, quantize(array, TYPES[coded]), raw_dtype=TYPES[coded])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def rounded(model: Any, kind: str) -> Any:
    """Round the matrices of a model of transformers as the type does: rows of outputs in blocks, which GPT-2 has in columns."""
    turned = {id(m.weight) for m in model.modules() if isinstance(m, transformers.pytorch_utils.Conv1D)}
    for parameter in model.parameters():
        if parameter.ndim == 2:
            rows = parameter.data.T if id(parameter) in turned else parameter.data
            back = torch.tensor(dequantize(quantize(rows.contiguous().numpy(), TYPES[kind]), TYPES[kind]))
            parameter.data = (back.T if id(parameter) in turned else back).contiguous()
    return model


def sentencepiece() -> dict[str, Any]:
    kinds = [2, 3, 3, *[6] * 64, *[1] * (len(PIECES) - 67)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": PIECES,
        "tokenizer.ggml.scores": [0.0 if n < 67 else -float(n) for n in range(len(PIECES))],
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def llama_values(**more: Any) -> dict[str, Any]:
    values = {
        "llama.context_length": 64,
        "llama.embedding_length": 64,
        "llama.block_count": 2,
        "llama.feed_forward_length": 96,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 5000.0,
        "llama.rope.dimension_count": 16,
    }
    return {key: value for key, value in (values | sentencepiece() | more).items() if value is not None}


def llama_model() -> Any:
    torch.manual_seed(0)
    rope = {"rope_theta": 5000.0, "rope_type": "default"}
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, rms_norm_eps=1e-5, rope_parameters=rope)
    return shaken(transformers.LlamaForCausalLM(config), 0.1)


def llama_tensors(model: Any) -> dict[str, torch.Tensor]:
    found = {"token_embd.weight": model.model.embed_tokens.weight, "output.weight": model.lm_head.weight}
    found["output_norm.weight"] = model.model.norm.weight
    for n, layer in enumerate(model.model.layers):
        for theirs, name in LLAMA_NAMES.items():
            weight = layer.get_submodule(theirs).weight
            heads = {"attn_q": 4, "attn_k": 2}.get(name)
            found[f"blk.{n}.{name}.weight"] = weight if heads is None else interleaved(weight, heads)
    return found


def llama_file(path: Path, kind: str = "f32", **more: Any) -> Path:
    return write(path, "llama", llama_values(**more), llama_tensors(llama_model()), kind)


def gpt2_file(path: Path, kind: str = "f32", **more: Any) -> tuple[Path, Any]:
    """Return a file and the model that is in it."""
    import json

    bpe = json.loads(byte_tokenizer(300))
    pieces = sorted(bpe["model"]["vocab"], key=bpe["model"]["vocab"].get)
    torch.manual_seed(0)
    model = shaken(transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=len(pieces), **GPT2)), 0.1)
    found = {"token_embd.weight": model.transformer.wte.weight, "position_embd.weight": model.transformer.wpe.weight}
    for name, module in (("output_norm", model.transformer.ln_f),):
        found |= {f"{name}.weight": module.weight, f"{name}.bias": module.bias}
    for n, layer in enumerate(model.transformer.h):
        for theirs, name in GPT2_NAMES.items():
            module = layer.get_submodule(theirs)
            turned = module.weight.ndim == 2
            found |= {f"blk.{n}.{name}.weight": module.weight.T.contiguous() if turned else module.weight}
            found |= {f"blk.{n}.{name}.bias": module.bias}
    values = {
        "gpt2.context_length": 48,
        "gpt2.embedding_length": 64,
        "gpt2.block_count": 2,
        "gpt2.feed_forward_length": 96,
        "gpt2.attention.head_count": 4,
        "gpt2.attention.layer_norm_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.token_type": [3 if n < 4 else 1 for n in range(len(pieces))],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in bpe["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    return write(path, "gpt2", values | more, found, kind), model
