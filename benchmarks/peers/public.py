"""Random models of transformers in published shapes, as folders, and the same models opened by our import.

Weights are drawn so that a model is as sure of its tokens as a trained one: scores of the next token deviate by about 4. With the
usual tiny weights every token is as good as any other, and sums in another order would change the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from regard.families import build_model
from regard.interop.huggingface import read_public

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
SURE = 4.0  # deviation of the scores of the next token
T5 = dict(pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, dropout_rate=0.0)
BART = dict(pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None, dropout=0.0, init_std=0.04)
LLAMA = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=True, initializer_range=0.05)
MARIAN = BART | dict(scale_embedding=True, activation_function="swish", eos_token_id=0)  # its last token is padding
LARGE = dict(d_model=1024, encoder_ffn_dim=4096, decoder_ffn_dim=4096, encoder_layers=12, decoder_layers=12)
SMALL_BART = dict(d_model=64, encoder_ffn_dim=96, decoder_ffn_dim=96, encoder_layers=2, decoder_layers=2, vocab_size=500)
HEADS = ("encoder_attention_heads", "decoder_attention_heads")
T5_BASE = dict(vocab_size=32_128, d_model=768, d_kv=64, num_layers=12, num_heads=12)
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "t5-base": ("T5", T5 | T5_BASE | dict(d_ff=3072)),
    "t5-1.1-base": ("T5", T5 | T5_BASE | dict(d_ff=2048, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "bart-base": ("Bart", BART | dict.fromkeys(HEADS, 12) | dict(d_model=768, encoder_layers=6, decoder_layers=6)),
    "bart-large": ("Bart", BART | dict.fromkeys(HEADS, 16) | LARGE | dict(vocab_size=50_265)),
    "opus-mt": ("Marian", MARIAN | dict.fromkeys(HEADS, 8) | dict(d_model=512, encoder_layers=6, decoder_layers=6)),
    "llama-124m": (
        "Llama",
        LLAMA | dict(vocab_size=50_257, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12),
    ),
}
SHAPES["bart-base"][1].update(encoder_ffn_dim=3072, decoder_ffn_dim=3072, vocab_size=50_265)
SHAPES["opus-mt"][1].update(encoder_ffn_dim=2048, decoder_ffn_dim=2048, vocab_size=32_000)
TINY: dict[str, dict[str, Any]] = {
    "T5": dict(vocab_size=500, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4),
    "Bart": SMALL_BART | dict.fromkeys(HEADS, 4),
    "Marian": SMALL_BART | dict.fromkeys(HEADS, 4),
    "Llama": dict(vocab_size=500, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4),
}
HEAD = {"T5": "ForConditionalGeneration", "Bart": "ForConditionalGeneration", "Marian": "MTModel", "Llama": "ForCausalLM"}


def save(shape: str, folder: Path, *, tiny: bool = False) -> Path:
    """Write a random model of this shape, or a tiny one of its kind; return the folder."""
    kind, keys = SHAPES[shape]
    keys = keys | (TINY[kind] if tiny else {})
    if kind == "Marian":
        keys |= dict.fromkeys(("pad_token_id", "decoder_start_token_id"), keys["vocab_size"] - 1)
    config = getattr(transformers, f"{kind}Config")(**keys)
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}{HEAD[kind]}")(config)
    words: nn.Embedding = model.get_input_embeddings()
    own_head = keys.get("tie_word_embeddings") is False
    if not own_head:
        scaled = 1.0 if kind != "T5" else words.embedding_dim**0.5  # T5 divides what its output layer reads
        nn.init.normal_(words.weight, std=scaled * SURE / words.embedding_dim**0.5)
    if kind == "T5" and not own_head:  # else the word that was read would outweigh what layers add to it, and be written again
        for name, weight in model.named_parameters():
            if name.endswith((".o.weight", ".wo.weight")):
                weight.data.mul_(20)
    if kind == "Marian":
        nn.init.zeros_(words.weight[config.pad_token_id])
    model.save_pretrained(folder)
    if own_head:  # transformers 5 ties it when it makes a model, and not when it opens one
        path = folder / "model.safetensors"
        head_VD = torch.randn(words.weight.shape) * SURE / words.embedding_dim**0.5
        save_file(load_file(path) | {"lm_head.weight": head_VD}, path, metadata={"format": "pt"})
    return folder


def theirs(folder: Path, device: torch.device) -> Any:
    """Open a folder by transformers, in float32. No setting of generation is left but those of a call."""
    kind = str(transformers.AutoConfig.from_pretrained(folder).architectures[0])
    model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32).to(device).eval()
    ids = ("pad_token_id", "eos_token_id", "bos_token_id", "decoder_start_token_id")
    model.generation_config = transformers.GenerationConfig(**{name: getattr(model.config, name, None) for name in ids})
    if model.config.model_type == "marian":
        model.generation_config.bad_words_ids = [[model.config.pad_token_id]]
    return model


def ours(folder: Path, device: torch.device) -> Any:
    """Open the same folder by `regard`, in float32."""
    public = read_public(folder)
    model = build_model(public.config, vocabulary=public.vocabulary, target_vocabulary=public.target_vocabulary)
    model.load_state_dict(public.weights)
    return model.to(device).eval()
