"""T5 as it is public: `t5` (T5, T5 1.1, Flan-T5, ByT5) and `mt5` of transformers.

How a folder says that its output layer is the embedding, scaled, differs between versions. transformers 4 wrote
`tie_word_embeddings: false` for T5 1.1 and its kin; transformers 5 always writes true, and `scale_decoder_outputs` beside it.
So: the scale is `scale_decoder_outputs` where that is there, else `tie_word_embeddings` (mT5 has none); and the output layer is
a matrix of its own exactly if one is stored that is not the embedding. We write both keys as version 4 means them, which both
versions then read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families.t5 import T5Config
from regard.interop.huggingface.mapping import (
    COMMON,
    Blocks,
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

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu", "swish": "silu"}
DROPOUTS = ("attention_dropout", "activation_dropout", "stack_dropout")  # all are `dropout_rate` in transformers
KEYS: dict[str, Meaning] = {
    **COMMON,
    "is_encoder_decoder": Only((True,)),
    "is_decoder": Only((False,)),
    "vocab_size": Number("vocabulary", 32_128),
    "d_model": Number("width", 512),
    "d_kv": Number("head_width", 64),
    "d_ff": Number("feedforward", 2048),
    "num_layers": Number("encoder_layers", 6),
    "num_decoder_layers": Number("decoder_layers", None),
    "num_heads": Number("heads", 8),
    "relative_attention_num_buckets": Number("buckets", 32),
    "relative_attention_max_distance": Number("farthest", 128),
    "dropout_rate": Number("dropout", 0.1, whole=False),
    "layer_norm_epsilon": Number("norm_epsilon", 1e-6, whole=False),
    "feed_forward_proj": Raw("projection", "relu"),
    "tie_word_embeddings": Flag("tied", True),
    "scale_decoder_outputs": Raw("scaled_outputs"),
    "n_positions": Number("maximum_length", 512),
    **ignored("is_gated_act dense_act_fn initializer_factor classifier_dropout"),  # the first two follow from feed_forward_proj
}


def _block(stack: str) -> tuple[Entry, ...]:
    places = {"self": ("0", "SelfAttention"), "cross": ("1", "EncDecAttention")}
    ffn = "2" if stack == "decoder" else "1"
    self_at, self_name = places["self"]
    own = f"layer.{self_at}.{self_name}"
    entries = (
        *scale("self.norm", f"layer.{self_at}.layer_norm"),
        *matrix("self.layer.project", f"{own}.q,{own}.k,{own}.v", "3I", "D"),
        *matrix("self.layer.out", f"{own}.o", "D", "I"),
    )
    if stack == "decoder":
        cross_at, cross_name = places["cross"]
        source = f"layer.{cross_at}.{cross_name}"
        entries += (
            *scale("cross.norm", f"layer.{cross_at}.layer_norm"),
            *matrix("cross.layer.query", f"{source}.q", "I", "D"),
            *matrix("cross.layer.project", f"{source}.k,{source}.v", "2I", "D"),
            *matrix("cross.layer.out", f"{source}.o", "D", "I"),
        )
    dense = f"layer.{ffn}.DenseReluDense"
    return (
        *entries,
        *scale("ffn.norm", f"layer.{ffn}.layer_norm"),
        *matrix("ffn.layer.expand", f"{dense}.wi", "plain F", "D"),
        *matrix("ffn.layer.gate", f"{dense}.wi_0", "gated F", "D"),
        *matrix("ffn.layer.expand", f"{dense}.wi_1", "gated F", "D"),
        *matrix("ffn.layer.contract", f"{dense}.wo", "D", "F"),
    )


def _bias(stack: str) -> Entry:
    theirs = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return Entry(f"{stack}.position.table.weight", (theirs,), ("buckets", "heads"))


def _ours(settings: Settings) -> Settings:
    rest = {key: value for key, value in settings.items() if key not in ("projection", "tied", "scaled_outputs")}
    projection, scaled = settings["projection"], settings.get("scaled_outputs", settings["tied"])
    *gated, activation = str(projection).split("-")
    if gated not in ([], ["gated"]) or activation not in ACTIVATIONS:
        known = ", ".join([*ACTIVATIONS, "gated-gelu"])
        raise UserError(f"feed_forward_proj={projection!r} is not one that this version of Regard computes: {known}.")
    if not isinstance(scaled, bool):
        raise UserError(f"scale_decoder_outputs={scaled!r}; true or false is expected.")
    layers = {"layers": rest["encoder_layers"], "encoder_layers": 0}
    decoder_layers = rest.get("decoder_layers", rest["encoder_layers"])
    return {
        **rest,
        **layers,
        "decoder_layers": decoder_layers if decoder_layers != rest["encoder_layers"] else 0,
        "feedforward_kind": "gated" if gated else "plain",
        "activation": "gelu_tanh" if projection == "gated-gelu" else ACTIVATIONS[activation],
        "scaled_head": scaled,
        **dict.fromkeys(DROPOUTS, rest["dropout"]),
    }


def _theirs(settings: Settings) -> Settings:
    said = ("feedforward_kind", "activation", "scaled_head", "tie", "layers")
    rest = {key: value for key, value in settings.items() if key not in said}
    gated, activation = settings["feedforward_kind"] == "gated", settings["activation"]
    names = {"gelu_tanh": "gelu"} if gated else {"gelu_tanh": "gelu_new"}
    if gated and activation == "gelu":
        raise UserError("model.activation=gelu cannot be written as T5 of transformers when gated; it has gelu_tanh there.")
    return {
        **rest,
        "dropout": settings["dropout"],
        **dict.fromkeys(DROPOUTS, 0.0),
        "encoder_layers": settings["encoder_layers"] or settings["layers"],
        "decoder_layers": settings["decoder_layers"] or settings["layers"],
        "head_width": settings["head_width"] or settings["width"] // settings["heads"],
        "projection": ("gated-" if gated else "") + str(names.get(activation, activation)),
        "tied": settings["tie"] == "all",
        "scaled_outputs": settings["scaled_head"],
    }


def _as_stored(config: Config, heads: Sequence[str], tensors: Mapping[str, Tensor]) -> Config:
    head = tensors.get("lm_head.weight")
    words = next((tensors[name] for name in ("shared.weight", "encoder.embed_tokens.weight") if name in tensors), None)
    apart = head is not None and words is not None and not (head.shape == words.shape and torch.equal(head, words))
    assert isinstance(config, T5Config)
    return replace(config, tie="inputs" if apart else "all")


IMPLIED: Settings = {
    "mixer": "softmax",
    "visibility": "full",
    "position": "relative",
    "bias": False,
    "scaled": False,
    "norm": "rms",
    "norm_placement": "pre",
}
EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
T5 = Layout(
    model_type="t5",
    architectures={"T5ForConditionalGeneration": ()},
    config=T5Config,
    keys=KEYS,
    implied=lambda settings: IMPLIED,
    prefix="",
    whole=(
        *table("source.tokens", "shared", "V", again=EMBEDDINGS),
        *table("target.tokens", "shared", "V", tied="source.tokens.weight"),
        _bias("encoder"),
        _bias("decoder"),
        *scale("encoder.norm", "encoder.final_layer_norm"),
        *scale("decoder.norm", "decoder.final_layer_norm"),
        *table("head.project", "lm_head", "tied T", tied="source.tokens.weight"),
        *table("head.project", "lm_head", "own T"),
    ),
    blocks=(
        Blocks("encoder.blocks", "encoder.block", _block("encoder")),
        Blocks("decoder.blocks", "decoder.block", _block("decoder")),
    ),
    buffers=("layer.1.EncDecAttention.relative_attention_bias.weight",),  # in no computation, but in some files
    ours=_ours,
    theirs=_theirs,
    fitted=_as_stored,
)
MT5 = replace(
    T5,
    model_type="mt5",
    architectures={"MT5ForConditionalGeneration": ()},
    keys={
        **KEYS,
        "vocab_size": Number("vocabulary", 250_112),
        "d_ff": Number("feedforward", 1024),
        "num_layers": Number("encoder_layers", 8),
        "num_heads": Number("heads", 6),
        "feed_forward_proj": Raw("projection", "gated-gelu"),
        "scale_decoder_outputs": Only((False,)),  # which mT5 of transformers never does
    },
    ours=lambda settings: _ours({**settings, "scaled_outputs": False}),
    theirs=lambda settings: {**_theirs(settings), "scaled_head": settings["scaled_head"]},
    implied=lambda settings: {**IMPLIED, "scaled_head": False},
)
