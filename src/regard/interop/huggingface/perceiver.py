"""Perceiver as it is public: `perceiver` of transformers, as a model of masked bytes or as an image classifier with Fourier
features.

Both have model_type "perceiver"; `architectures` says which one a folder holds. What their code has and no key says: norms of
epsilon 1e-5 (`layer_norm_eps` is never read), output queries of masked bytes with 8 heads of 32 and no residual, those of a
class with one head, Fourier features of 64 bands for 224 x 224 pixels whatever `image_size` says. Of the keys some belong to
models of video, flow and sound that share the configuration.

Letters of sizes beside those of `mapping.py`: N latents, E input width, X channels of the array, Q width of output queries;
`read`, `self` and `ask` before qk, v and their sums are those of the reading, of latents among each other, and of output
queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from regard.families.perceiver import PerceiverConfig
from regard.interop.huggingface.mapping import (
    COMMON,
    Choice,
    Config,
    Described,
    Entry,
    Flag,
    Layout,
    Meaning,
    Number,
    Only,
    Raw,
    Settings,
    ignored,
    linear,
    norm,
    table,
)
from regard.interop.huggingface.vit import PIXELS, pixels_of, preprocessor

ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh", "silu": "silu", "swish": "silu"}
IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
KEYS: dict[str, Meaning] = {
    **COMMON,
    "num_latents": Number("latents", 256),
    "d_latents": Number("width", 1280),
    "num_blocks": Number("blocks", 1),
    "num_self_attends_per_block": Number("layers", 26),
    "num_self_attention_heads": Number("heads", 8),
    "num_cross_attention_heads": Number("cross_heads", 8),
    "qk_channels": Raw("qk_width"),
    "v_channels": Raw("value_width"),
    "self_attention_widening_factor": Number("widening", 1),
    "cross_attention_widening_factor": Number("cross_widening", 1),
    "cross_attention_shape_for_attention": Only(("kv",)),
    "use_query_residual": Flag("query_residual", True),
    "hidden_act": Choice("activation", ACTIVATIONS, "gelu"),
    "attention_probs_dropout_prob": Number("attention_dropout", 0.1, whole=False),
    **ignored("layer_norm_eps train_size num_frames audio_samples_per_frame samples_per_patch output_shape"),
    **ignored("output_num_channels _label_trainable_num_channels"),
}


def _sizes(config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
    c = cast(PerceiverConfig, config)
    size = {
        "V": vocabulary,
        "P": c.maximum_length,
        "D": c.width,
        "N": c.latents,
        "E": c.input_width,
        "X": c.channels,
        "C": labels,
    }
    size |= {"1": 1, "F": c.widening * c.width, "read F": c.cross_widening * c.width}
    for part, qk, v in (
        ("read", c.qk_width or c.channels, c.value_width or c.qk_width or c.channels),
        ("self", c.qk_width or c.width, c.value_width or c.qk_width or c.width),
        ("ask", c.answer_qk, c.answer_value),
    ):
        size |= {f"{part} qk": qk, f"{part} v": v, f"{part} qk+v": qk + v, f"{part} 2qk+v": 2 * qk + v}
    return size


def _joined(ours: str, theirs: str, parts: str, inputs: str, total: str) -> tuple[Entry, ...]:
    """Map a linear layer of ours to several of theirs with different numbers of rows."""
    rows, names = tuple(parts.split(",")), theirs.split(",")
    return tuple(
        Entry(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in names), (total, *more), parts=rows)
        for kind, more in (("weight", (inputs,)), ("bias", ()))
    )


def _cross(ours: str, theirs: str, part: str, queries: str, array: str, inner: str) -> tuple[Entry, ...]:
    own = "attention.self"
    entries = (
        *norm("norm", f"{own}.layernorm1", queries),
        *norm("array_norm", f"{own}.layernorm2", array),
        *linear("attention.query", f"{own}.query", f"{part} qk", queries),
        *_joined("attention.project", f"{own}.key,{own}.value", f"{part} qk,{part} v", array, f"{part} qk+v"),
        *linear("attention.out", "attention.output.dense", queries, f"{part} v"),
        *norm("ffn_norm", "layernorm", queries),
        *linear("ffn.expand", "mlp.dense1", inner, queries),
        *linear("ffn.contract", "mlp.dense2", queries, inner),
    )
    return tuple(entry.within(ours, theirs) for entry in entries)


OWN = "attention.self"
SELF = (
    *norm("norm", f"{OWN}.layernorm1"),
    *_joined("attention.project", f"{OWN}.query,{OWN}.key,{OWN}.value", "self qk,self qk,self v", "D", "self 2qk+v"),
    *linear("attention.out", "attention.output.dense", "D", "self v"),
    *norm("ffn_norm", "layernorm"),
    *linear("ffn.expand", "mlp.dense1", "F", "D"),
    *linear("ffn.contract", "mlp.dense2", "D", "F"),
)


def _layers(config: Config) -> Iterator[Entry]:
    """Yield the layers between latents: those of later blocks are the first block's under other names."""
    c = cast(PerceiverConfig, config)
    for n in range(c.blocks * c.layers):
        for entry in SELF:
            tied = f"encoder.layers.{n % c.layers}.{entry.ours}" if n >= c.layers else ""
            yield replace(entry.within(f"encoder.layers.{n}", f"encoder.self_attends.{n}"), tied=tied)


def _ours(settings: Settings) -> Settings:
    return {"vocabulary": 0, **settings}


def _theirs(settings: Settings) -> Settings:
    return {**settings, **{key: settings[key] or None for key in ("qk_width", "value_width")}}


WHOLE = (
    Entry("encoder.latents.weight", ("embeddings.latents",), ("N", "D")),
    *_cross("encoder.reads.0", "encoder.cross_attention", "read", "D", "X", "read F"),
)
DECODER, CLASSES = "decoder", "decoder.decoder"
MASKED = (
    Entry("decoder.queries.weight", (f"{DECODER}.output_position_encodings.position_embeddings",), ("P", "E")),
    *_cross("decoder.layer", f"{DECODER}.decoding_cross_attention", "ask", "E", "D", "E"),
    *table("head.project", "embedding_decoder", "V", tied="embed.embed.tokens.weight", columns="E", inside=False),
    Entry("head.project.bias", ("embedding_decoder.bias",), ("V",), inside=False),
)
CLASSIFIED = (
    Entry("pooler.queries.queries.weight", (f"{CLASSES}.output_position_encodings.position_embeddings",), ("1", "D")),
    *_cross("pooler.queries.layer", f"{CLASSES}.decoding_cross_attention", "ask", "D", "D", "D"),
    *linear("classes.project", f"{CLASSES}.final_layer", "C", "D"),
)
TEXT = (
    Entry("embed.embed.tokens.weight", ("input_preprocessor.embeddings.weight",), ("V", "E")),
    Entry("embed.embed.positions.scheme.table.weight", ("input_preprocessor.position_embeddings.weight",), ("P", "E")),
)


def _text(settings: Settings) -> Settings:
    asked = {"decoder_heads": 8, "decoder_qk_width": 256, "decoder_value_width": settings["input_width"]}
    return {"reads": "text", "positions": "learned", "dropout": 0.0, **asked}


def _image(settings: Settings) -> Settings:
    scaled = {"pixel_mean": IMAGENET_MEAN, "pixel_deviation": IMAGENET_DEVIATION}
    return {"reads": "image", "positions": "fourier", "image_size": 224, "dropout": 0.0, **scaled}


def _pixels(config: Config, described: Mapping[str, Any] | None, where: str) -> Described:
    """Return the config whose pixels are those of `preprocessor_config.json`; without one, ImageNet's as they were trained."""
    return Described(config, ()) if described is None else pixels_of(config, described, where)


def _preprocessor(config: Config) -> dict[str, Any]:
    return preprocessor(config) | {"image_processor_type": "PerceiverImageProcessor", "do_center_crop": False}


PERCEIVER_FOURIER = Layout(
    model_type="perceiver",
    architectures={"PerceiverForImageClassificationFourier": ("classes",)},
    config=cast(Any, PerceiverConfig),
    keys=KEYS | ignored("d_model vocab_size max_position_embeddings image_size"),
    implied=_image,
    prefix="perceiver.",
    whole=WHOLE,
    blocks=(),
    buffers=(),
    heads={"classes": CLASSIFIED},
    ours=_ours,
    theirs=_theirs,
    sized=_sizes,
    more=_layers,
    elsewhere=PIXELS,
    pixels=_pixels,
    preprocessor=_preprocessor,
)
PERCEIVER = replace(
    PERCEIVER_FOURIER,
    architectures={"PerceiverForMaskedLM": ("words",)},
    keys=KEYS
    | {
        "d_model": Number("input_width", 768),
        "vocab_size": Number("vocabulary", 262),
        "max_position_embeddings": Number("maximum_length", 2048),
    }
    | ignored("image_size"),
    implied=_text,
    whole=(*WHOLE, *TEXT),
    heads={"words": MASKED},
    others=(PERCEIVER_FOURIER,),
    elsewhere=(),
    pixels=None,
    preprocessor=None,
)


def layout_for_perceiver(config: Any) -> Layout:
    """Return the layout of what this model reads."""
    return PERCEIVER if config.reads == "text" else PERCEIVER_FOURIER
