"""GPT-1 and GPT-2 as they are public: the layouts of OpenAI's releases in transformers, `openai-gpt` and `gpt2`.

They differ in where they normalise, and so in the norm at the end, which only GPT-2 has. What both call `gelu` or `gelu_new` is
the approximation by tanh.
"""

from __future__ import annotations

from regard.families.gpt import GPTConfig
from regard.interop.huggingface.mapping import (
    COMMON,
    Blocks,
    Choice,
    Layout,
    Meaning,
    Number,
    Only,
    Settings,
    conv,
    ignored,
    norm,
    table,
)

KEYS: dict[str, Meaning] = {
    **COMMON,
    "n_embd": Number("width", 768),
    "n_layer": Number("layers", 12),
    "n_head": Number("heads", 12),
    "layer_norm_epsilon": Number("norm_epsilon", 1e-5, whole=False),
    "resid_pdrop": Number("dropout", 0.1, whole=False),
    "embd_pdrop": Number("dropout", 0.1, whole=False),
    "attn_pdrop": Number("attention_dropout", 0.1, whole=False),
    **ignored("n_ctx n_special predict_special_tokens is_decoder"),
    **ignored("summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout"),
}

BLOCK = (
    *norm("self.norm", "ln_1"),
    *conv("self.layer.project", "attn.c_attn", "3D", "D"),
    *conv("self.layer.out", "attn.c_proj", "D", "D"),
    *norm("ffn.norm", "ln_2"),
    *conv("ffn.layer.expand", "mlp.c_fc", "F", "D"),
    *conv("ffn.layer.contract", "mlp.c_proj", "D", "F"),
)
BLOCKS = (Blocks("decoder.blocks", "h", BLOCK),)
BUFFERS = (".attn.bias", ".attn.masked_bias", "position_ids")
HEAD = table("head.project", "lm_head", "V", tied="embed.tokens.weight")


def _implied(settings: Settings) -> Settings:
    return {"mixer": "softmax", "visibility": "full", "position": "learned", "feedforward": 4 * settings["width"]}


GPT2 = Layout(
    model_type="gpt2",
    architectures={"GPT2LMHeadModel": ()},
    config=GPTConfig,
    keys={
        **KEYS,
        "vocab_size": Number("vocabulary", 50_257),
        "n_positions": Number("maximum_length", 1024),
        "n_inner": Number("feedforward", None),
        "activation_function": Choice(
            "activation",
            {
                "gelu_new": "gelu_tanh",
                "gelu_pytorch_tanh": "gelu_tanh",
                "gelu_fast": "gelu_tanh",
                "gelu": "gelu",
                "gelu_python": "gelu",
                "relu": "relu",
            },
            "gelu_new",
        ),
        "scale_attn_weights": Only((True,)),
        "scale_attn_by_inverse_layer_idx": Only((False,)),
        "reorder_and_upcast_attn": Only((False,)),
    },
    implied=lambda settings: {**_implied(settings), "norm_placement": "pre"},
    prefix="transformer.",
    whole=(
        *table("embed.tokens", "wte", "V"),
        *table("embed.positions.scheme.table", "wpe", "P"),
        *norm("decoder.norm", "ln_f"),
        *HEAD,
    ),
    blocks=BLOCKS,
    buffers=BUFFERS,
)

GPT1 = Layout(
    model_type="openai-gpt",
    architectures={"OpenAIGPTLMHeadModel": ()},
    config=GPTConfig,
    keys={
        **KEYS,
        "vocab_size": Number("vocabulary", 40_478),
        "n_positions": Number("maximum_length", 512),
        "afn": Choice("activation", {"gelu": "gelu_tanh", "relu": "relu"}, "gelu"),
    },
    implied=lambda settings: {**_implied(settings), "norm_placement": "post"},
    prefix="transformer.",
    whole=(*table("embed.tokens", "tokens_embed", "V"), *table("embed.positions.scheme.table", "positions_embed", "P"), *HEAD),
    blocks=BLOCKS,
    buffers=BUFFERS,
)
