"""PatchTST as it is public: `PatchTSTForPrediction` of transformers, which differs from the authors' code.

Norms stand before each sublayer by default, with none at the end; no scores are handed on; the first values of a window that no
patch has are left out, where the authors repeat the last one. Sine and cosine positions are stored as a table, and so they are
read as a learned one. What is the number of tokens of a vocabulary elsewhere is the number of channels here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families.patchtst import PatchTSTConfig
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
    linear,
    sizes,
)

POOLING = {None: "flatten", "mean": "mean"}
NORMS = {"batchnorm": True, "layernorm": False}
SCALING = {"std": "standard", None: "none", False: "none"}
TABLES: dict[str, tuple[str, dict[Any, Any]]] = {
    "pooling": ("pooling_type", POOLING),
    "normalisation": ("scaling", SCALING),
    "batch_norm": ("norm_type", NORMS),
}
KEYS: dict[str, Meaning] = {
    **COMMON,
    "tie_word_embeddings": Only((True, False)),
    "num_input_channels": Number("vocabulary", 1),
    "context_length": Number("lookback", 32, least=2),
    "prediction_length": Number("horizon", 24),
    "patch_length": Number("patch", 1),
    "patch_stride": Number("stride", 1),
    "d_model": Number("width", 128),
    "num_hidden_layers": Number("layers", 3),
    "num_attention_heads": Number("heads", 4),
    "ffn_dim": Number("feedforward", 512),
    "norm_eps": Number("norm_epsilon", 1e-5, whole=False),
    "attention_dropout": Number("attention_dropout", 0.0, whole=False),
    "path_dropout": Number("dropout", 0.0, whole=False),
    "positional_dropout": Number("dropout", 0.0, whole=False),
    "ff_dropout": Number("activation_dropout", 0.0, whole=False),
    "activation_function": Choice("activation", {"gelu": "gelu", "relu": "relu"}, "gelu"),
    "pre_norm": Flag("norm_placement", True),
    "norm_type": Raw("batch_norm", "batchnorm"),
    "pooling_type": Raw("pooling", "mean"),
    "scaling": Raw("normalisation", "std"),
    "bias": Only((True,)),
    "share_embedding": Only((True,)),
    "share_projection": Only((True,)),
    "channel_attention": Only((False,)),
    "use_cls_token": Only((False,)),
    "loss": Only(("mse",)),
    "do_mask_input": Only((None, False)),
    **ignored("distribution_output positional_encoding_type init_std mask_type random_mask_ratio num_forecast_mask_patches"),
    **ignored("channel_consistent_masking unmasked_channel_indices mask_value head_dropout num_targets output_range"),
    **ignored("num_parallel_samples"),
}


def ours(settings: Settings) -> Settings:
    found = dict(settings)
    found["norm_placement"] = "pre" if found.get("norm_placement", True) else "post"
    # `None` means something here, and settings without a value do not arrive
    for setting, (key, names) in TABLES.items():
        value = found.get(setting)
        if value not in names:
            raise UserError(f"{key}={value!r}; this version of Regard has {', '.join(map(repr, names))}.")
        found[setting] = names[value]
    return found


def theirs(settings: Settings) -> Settings:
    back: dict[str, dict[Any, Any]] = {}
    for setting, (_, names) in TABLES.items():
        back[setting] = {ours: name for name, ours in reversed(names.items())}
        if settings[setting] not in back[setting]:
            raise UserError(
                f"model.{setting}={settings[setting]} cannot be written as patchtst of transformers; it has none such."
            )
    changed = {setting: back[setting][settings[setting]] for setting in back}
    return {**settings, **changed, "norm_placement": settings["norm_placement"] == "pre"}


def implied(settings: Settings) -> Settings:
    return {"position": "learned", "padded": False, "residual_scores": False, "affine": False}


def _norm(ours: str, theirs: str) -> tuple[Entry, ...]:
    """Map a norm of either kind; of batch normalisation its running averages too."""
    parts = (("weight", "weight"), ("bias", "bias"), ("mean_D", "running_mean"), ("variance_D", "running_var"))
    batch = (Entry(f"{ours}.{own}", (f"{theirs}.batchnorm.{name}",), ("batch D",)) for own, name in parts)
    layer = (Entry(f"{ours}.{own}", (f"{theirs}.{name}",), ("layer D",)) for own, name in parts[:2])
    return (*batch, *layer)


def computed(config: Config, prefix: str) -> dict[str, Tensor]:
    """Return the counters of batch normalisation, which nothing reads."""
    assert isinstance(config, PatchTSTConfig)
    names = [f"{prefix}encoder.layers.{n}.norm_sublayer{k}.batchnorm" for n in range(config.layers) for k in (1, 3)]
    return {f"{name}.num_batches_tracked": torch.tensor(0) for name in names} if config.batch_norm else {}


BLOCK = (
    *linear("self.layer.project", "self_attn.q_proj,self_attn.k_proj,self_attn.v_proj", "3I", "D"),
    *linear("self.layer.out", "self_attn.out_proj", "D", "I"),
    *_norm("self.norm", "norm_sublayer1"),
    *linear("ffn.layer.expand", "ff.0", "F", "D"),
    *linear("ffn.layer.contract", "ff.3", "D", "F"),
    *_norm("ffn.norm", "norm_sublayer3"),
)


def _sizes(config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
    """Return P times of a patch, G patches, H times of a forecast, and the widths of what is read and of each kind of norm."""
    assert isinstance(config, PatchTSTConfig)
    batch, tokens = (config.width if config.batch_norm else 0), (config.context if config.pooling == "flatten" else 1)
    size = {"P": config.patch, "G": config.context, "H": config.horizon, "read": tokens * config.width}
    return sizes(config, vocabulary, labels, target) | size | {"batch D": batch, "layer D": config.width - batch}


PATCHTST = Layout(
    model_type="patchtst",
    architectures={"PatchTSTForPrediction": ()},
    config=PatchTSTConfig,
    sized=_sizes,
    keys=KEYS,
    implied=implied,
    prefix="model.",
    whole=(
        *linear("embed", "encoder.embedder.input_embedding", "D", "P"),
        Entry("positions.scheme.table.weight", ("encoder.positional_encoder.position_enc",), ("G", "D")),
        *linear("head", "head.projection", "H", "read", inside=False),
    ),
    blocks=(Blocks("encoder.blocks", "encoder.layers", BLOCK),),
    buffers=("num_batches_tracked",),
    ours=ours,
    theirs=theirs,
    always={"positional_encoding_type": "random", "loss": "mse"},
    computed=computed,
)
