"""BART and its kin as they are public: `bart`, `mbart` and `marian` of transformers.

One body in three settings, and one table of names. Encoder and decoder may have numbers of layers of their own, but not of heads
or of feed-forward widths. `final_logits_bias` is a row of a matrix there. A Marian's positions are computed, so files that hold
them are read without them.
"""

from __future__ import annotations

from dataclasses import replace

from regard.core.errors import UserError
from regard.families.bart import BARTConfig
from regard.families.marian import MarianConfig
from regard.families.transformer import TransformerConfig
from regard.interop.huggingface.mapping import (
    COMMON,
    Blocks,
    Choice,
    Entry,
    Flag,
    Layout,
    Meaning,
    Number,
    Only,
    Settings,
    ignored,
    linear,
    norm,
    table,
)

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
KEYS: dict[str, Meaning] = {
    **COMMON,
    "is_encoder_decoder": Only((True,)),
    "is_decoder": Only((False,)),
    "vocab_size": Number("vocabulary", 50_265),
    "d_model": Number("width", 1024),
    "max_position_embeddings": Number("maximum_length", 1024),
    "encoder_layers": Number("encoder_layers", 12),
    "decoder_layers": Number("decoder_layers", 12),
    "encoder_attention_heads": Number("heads", 16),
    "decoder_attention_heads": Number("decoder_heads", 16),
    "encoder_ffn_dim": Number("feedforward", 4096),
    "decoder_ffn_dim": Number("decoder_feedforward", 4096),
    "activation_function": Choice("activation", ACTIVATIONS, "gelu"),
    "dropout": Number("dropout", 0.1, whole=False),
    "attention_dropout": Number("attention_dropout", 0.0, whole=False),
    "activation_dropout": Number("activation_dropout", 0.0, whole=False),
    "scale_embedding": Flag("scaled_embeddings", False),
    "normalize_before": Only((False,)),
    "add_final_layer_norm": Only((False,)),
    "normalize_embedding": Only((True,)),
    "static_position_embeddings": Only((False,)),
    "extra_pos_embeddings": Only((2,)),
    "add_bias_logits": Only((False, True)),  # the row is stored whatever this says
    **ignored("num_hidden_layers init_std classifier_dropout classif_dropout encoder_layerdrop decoder_layerdrop"),
    **ignored("force_bos_token_to_be_generated _num_labels save_step"),
}
WRITTEN = {"normalize_before": False, "add_final_layer_norm": False, "normalize_embedding": True, "add_bias_logits": False}


def _block(cross: bool) -> tuple[Entry, ...]:
    own, source = "self_attn", "encoder_attn"
    reads = (
        *norm("cross.norm", "encoder_attn_layer_norm"),
        *linear("cross.layer.query", f"{source}.q_proj", "D", "D"),
        *linear("cross.layer.project", f"{source}.k_proj,{source}.v_proj", "2D", "D"),
        *linear("cross.layer.out", f"{source}.out_proj", "D", "D"),
    )
    return (
        *norm("self.norm", "self_attn_layer_norm"),
        *linear("self.layer.project", f"{own}.q_proj,{own}.k_proj,{own}.v_proj", "3D", "D"),
        *linear("self.layer.out", f"{own}.out_proj", "D", "D"),
        *(reads if cross else ()),
        *norm("ffn.norm", "final_layer_norm"),
        *linear("ffn.layer.expand", "fc1", "F", "D"),
        *linear("ffn.layer.contract", "fc2", "D", "F"),
    )


def _ours(settings: Settings) -> Settings:
    rest = {key: value for key, value in settings.items() if not key.startswith("decoder_") and key != "shared"}
    for ours, theirs in (("heads", "attention_heads"), ("feedforward", "ffn_dim")):
        if settings[ours] != settings[f"decoder_{ours}"]:
            raise UserError(
                f"encoder_{theirs}={settings[ours]} and decoder_{theirs}={settings[f'decoder_{ours}']} differ; in this version "
                "of Regard both stacks have as many."
            )
    encoder_layers, decoder_layers = settings["encoder_layers"], settings["decoder_layers"]
    alike = encoder_layers == decoder_layers
    layers = {"layers": encoder_layers, "encoder_layers": 0, "decoder_layers": 0 if alike else decoder_layers}
    return {**rest, **layers, "tie": "all" if settings.get("shared", True) else "output"}


def _theirs(settings: Settings) -> Settings:
    rest = {key: value for key, value in settings.items() if key not in ("layers", "tie")}
    layers = {f"{stack}_layers": settings[f"{stack}_layers"] or settings["layers"] for stack in ("encoder", "decoder")}
    both = {f"decoder_{key}": settings[key] for key in ("heads", "feedforward")}
    return {**rest, **layers, **both, "shared": settings["tie"] == "all"}


def _implied(config: type[TransformerConfig], **others: object) -> Settings:
    usual = config()
    parts = ("position", "first_position", "embedding_norm", "head_bias", "norm_placement")
    return {"mixer": "softmax", "visibility": "full", **{key: getattr(usual, key) for key in parts}, **others}


BART = Layout(
    model_type="bart",
    architectures={"BartForConditionalGeneration": ()},
    config=BARTConfig,
    keys=KEYS,
    implied=lambda settings: _implied(BARTConfig),
    prefix="model.",
    whole=(
        *table("source.tokens", "shared", "shared V", again=("encoder.embed_tokens.weight",)),
        *table("source.tokens", "encoder.embed_tokens", "apart V"),
        *table("target.tokens", "decoder.embed_tokens", "shared V", tied="source.tokens.weight"),
        *table("target.tokens", "decoder.embed_tokens", "apart T"),
        *table("source.positions.scheme.table", "encoder.embed_positions", "learned P"),
        *table("target.positions.scheme.table", "decoder.embed_positions", "learned P"),
        *norm("source.norm", "encoder.layernorm_embedding", "normed E"),
        *norm("target.norm", "decoder.layernorm_embedding", "normed E"),
        *norm("encoder.norm", "encoder.layer_norm", "pre D"),
        *norm("decoder.norm", "decoder.layer_norm", "pre D"),
        *table("head.project", "lm_head", "T", tied="target.tokens.weight", inside=False),
        Entry("head.project.bias", ("final_logits_bias",), ("T",), inside=False, row=True),
    ),
    blocks=(
        Blocks("encoder.blocks", "encoder.layers", _block(cross=False)),
        Blocks("decoder.blocks", "decoder.layers", _block(cross=True)),
    ),
    buffers=("position_ids",),
    ours=_ours,
    theirs=_theirs,
    always=WRITTEN,
)
MBART = replace(
    BART,
    model_type="mbart",
    architectures={"MBartForConditionalGeneration": ()},
    keys={**KEYS, "normalize_before": Only((True,)), "add_final_layer_norm": Only((True,))},
    implied=lambda settings: _implied(BARTConfig, norm_placement="pre"),
    always={**WRITTEN, "normalize_before": True, "add_final_layer_norm": True},
)
MARIAN = replace(
    BART,
    model_type="marian",
    architectures={"MarianMTModel": ()},
    config=MarianConfig,
    keys={
        **KEYS,
        "vocab_size": Number("vocabulary", 58_101),
        "decoder_vocab_size": Number("target_vocabulary", None),
        "share_encoder_decoder_embeddings": Flag("shared", True),
        "normalize_embedding": Only((False,)),
        "static_position_embeddings": Only((True,)),
    },
    implied=lambda settings: _implied(MarianConfig),
    buffers=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
    always={**WRITTEN, "normalize_embedding": False, "static_position_embeddings": True},
)
