"""TimeSeriesTransformer as it is public: `TimeSeriesTransformerForPrediction` of transformers.

Its look-back counts the times that the encoder reads, ours all rows, those of the longest lag among them. What is known ahead is
`num_time_features` and `num_dynamic_real_features` together. Positions are computed, so the tables in its files are not read, and
are written from ours. Layers that it leaves out at random while training (`encoder_layerdrop`) are not left out here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families.time_series_transformer import TimeSeriesTransformerConfig
from regard.interop.huggingface.mapping import (
    COMMON,
    Blocks,
    Choice,
    Config,
    Entry,
    Layout,
    Meaning,
    Number,
    Only,
    Raw,
    Settings,
    ignored,
    linear,
    matrix,
    norm,
    sizes,
)
from regard.model.embedding import Sinusoidal

SCALING = {"mean": "mean", True: "mean", "std": "standard", None: "none", False: "none"}
DISTRIBUTIONS = ("student_t", "normal", "negative_binomial")
LISTS = {"lags": "lags_sequence", "cardinalities": "cardinality", "embedding_widths": "embedding_dimension"}
KEYS: dict[str, Meaning] = {
    **COMMON,
    "tie_word_embeddings": Only((True, False)),
    "is_encoder_decoder": Only((True,)),
    "loss": Only(("nll",)),
    "prediction_length": Number("horizon", None),
    "context_length": Number("history", None),
    "distribution_output": Raw("distribution", "student_t"),
    "scaling": Raw("normalisation", "mean"),
    "lags_sequence": Raw("lags", [1, 2, 3, 4, 5, 6, 7]),
    "input_size": Number("vocabulary", 1),
    "num_time_features": Number("time_features", 0, least=0),
    "num_dynamic_real_features": Number("dynamic_features", 0, least=0),
    "num_static_categorical_features": Number("categories", 0, least=0),
    "num_static_real_features": Number("static_features", 0, least=0),
    "cardinality": Raw("cardinalities"),
    "embedding_dimension": Raw("embedding_widths"),
    "d_model": Number("width", 64),
    "encoder_layers": Number("encoder_layers", 2),
    "decoder_layers": Number("decoder_layers", 2),
    "encoder_attention_heads": Number("heads", 2),
    "decoder_attention_heads": Number("decoder_heads", 2),
    "encoder_ffn_dim": Number("feedforward", 32),
    "decoder_ffn_dim": Number("decoder_feedforward", 32),
    "activation_function": Choice("activation", {"gelu": "gelu", "relu": "relu", "silu": "silu"}, "gelu"),
    "dropout": Number("dropout", 0.1, whole=False),
    "attention_dropout": Number("attention_dropout", 0.1, whole=False),
    "activation_dropout": Number("activation_dropout", 0.1, whole=False),
    "num_parallel_samples": Number("samples", 100),
    **ignored("feature_size init_std encoder_layerdrop decoder_layerdrop num_hidden_layers"),
}


def ours(settings: Settings) -> Settings:
    found = dict(settings)
    if "horizon" not in found:
        raise UserError("prediction_length is missing; give how many times are forecast.")
    for key, theirs_ in (("heads", "attention_heads"), ("feedforward", "ffn_dim")):
        if found[key] != (other := found.pop(f"decoder_{key}")):
            raise UserError(
                f"encoder_{theirs_}={found[key]} and decoder_{theirs_}={other} differ; in this version of Regard both stacks "
                "have as many."
            )
    if (given := found.get("normalisation")) not in SCALING:
        raise UserError(f"scaling={given!r}; this version of Regard has mean, std and none.")
    if found["distribution"] not in DISTRIBUTIONS:
        raise UserError(f"distribution_output={found['distribution']!r}; this version of Regard has {', '.join(DISTRIBUTIONS)}.")
    for setting, key in LISTS.items():
        values = found.get(setting, ()) if setting == "lags" or found["categories"] else ()
        if not isinstance(values, list | tuple) or any(type(value) is not int or value < 1 for value in values):
            raise UserError(f"{key}={values!r}; a list of whole numbers of at least 1 is expected.")
        found[setting] = tuple(values)
    if (count := found.pop("categories")) != len(found["cardinalities"]):
        raise UserError(f"num_static_categorical_features={count}, and cardinality has {len(found['cardinalities'])} numbers.")
    found["lookback"] = found.pop("history", None) or found["horizon"]
    found["lookback"] += max(found["lags"], default=0)
    found["known_features"] = found.pop("time_features") + found.pop("dynamic_features")
    layers = found["encoder_layers"], found["decoder_layers"]
    alike = layers[0] == layers[1]
    found |= {"layers": layers[0], "encoder_layers": 0, "decoder_layers": 0 if alike else layers[1]}
    return found | {"normalisation": SCALING[given], "channels": found["vocabulary"]}


def theirs(settings: Settings) -> Settings:
    if settings["distribution"] not in DISTRIBUTIONS:
        raise UserError(
            "model.distribution is empty, and TimeSeriesTransformer of transformers forecasts one: set objective.loss=student_t, "
            "normal or negative_binomial when training."
        )
    if settings["samples"] < 1:
        raise UserError("model.samples=0 follows means, and TimeSeriesTransformer of transformers draws paths; give 1 or more.")
    layers = {f"{stack}_layers": settings[f"{stack}_layers"] or settings["layers"] for stack in ("encoder", "decoder")}
    both = {f"decoder_{key}": settings[key] for key in ("heads", "feedforward")}
    back = {"mean": "mean", "standard": "std", "none": None}
    features = {"time_features": settings["known_features"], "dynamic_features": 0, "categories": len(settings["cardinalities"])}
    lists = {setting: list(settings[setting]) for setting in LISTS}
    history = settings["lookback"] - max(settings["lags"])
    return {
        **settings,
        **layers,
        **both,
        **features,
        **lists,
        "history": history,
        "normalisation": back[settings["normalisation"]],
    }


def implied(settings: Settings) -> Settings:
    # The rest of what keys say together: `express` compares only what no key says.
    said = ("lookback", "layers", "known_features", "channels")
    return {"position": "sinusoidal-halves", "norm_placement": "post"} | {
        name: settings[name] for name in said if name in settings
    }


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


def _sizes(config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
    """Return N numbers that describe a time, Y outputs, and as many where there is a third parameter."""
    assert isinstance(config, TimeSeriesTransformerConfig)
    channels, static = config.channels or 1, sum(config.embedding_widths) + config.static_features
    features = channels * (len(config.lags) + 2) + static + config.known_features
    third = channels if config.distribution == "student_t" else 0
    size = {"N": features, "Y": channels, "third Y": third}
    size |= {f"rows {n}": rows for n, rows in enumerate(config.cardinalities)}
    size |= {f"width {n}": width for n, width in enumerate(config.embedding_widths)}
    return sizes(config, vocabulary, labels, target) | size


def _embedders(config: Config) -> tuple[Entry, ...]:
    assert isinstance(config, TimeSeriesTransformerConfig)
    names = (f"embedders.{n}" for n in range(len(config.cardinalities)))
    return tuple(
        Entry(f"{name}.weight", (f"embedder.{name}.weight",), (f"rows {n}", f"width {n}")) for n, name in enumerate(names)
    )


def computed(config: Config, prefix: str) -> dict[str, Tensor]:
    """Return the tables of positions."""
    assert isinstance(config, TimeSeriesTransformerConfig)
    table = Sinusoidal(config.width, halves=True).embed(torch.arange(config.history + config.horizon))
    return {f"{prefix}{stack}.embed_positions.weight": table.clone() for stack in ("encoder", "decoder")}


TIME_SERIES_TRANSFORMER = Layout(
    model_type="time_series_transformer",
    architectures={"TimeSeriesTransformerForPrediction": ()},
    config=TimeSeriesTransformerConfig,
    sized=_sizes,
    keys=KEYS,
    implied=implied,
    prefix="model.",
    whole=(
        *matrix("read.project", "encoder.value_embedding.value_projection", "D", "N"),
        *norm("read.norm", "encoder.layernorm_embedding"),
        *matrix("write.project", "decoder.value_embedding.value_projection", "D", "N"),
        *norm("write.norm", "decoder.layernorm_embedding"),
        *linear("head.0", "parameter_projection.proj.0", "Y", "D", inside=False),
        *linear("head.1", "parameter_projection.proj.1", "Y", "D", inside=False),
        *linear("head.2", "parameter_projection.proj.2", "third Y", "D", inside=False),
    ),
    blocks=(
        Blocks("encoder.blocks", "encoder.layers", _block(cross=False)),
        Blocks("decoder.blocks", "decoder.layers", _block(cross=True)),
    ),
    more=_embedders,
    buffers=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
    ours=ours,
    theirs=theirs,
    computed=computed,
)
