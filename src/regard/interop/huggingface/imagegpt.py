"""ImageGPT as it is public: `imagegpt` of transformers, GPT-2's layout over the colours of a palette.

Chen et al. 2020. It differs from `gpt2` in norms that only divide by the root mean square, in quick_gelu, and in an output layer
of its own that scores the colours but not the start token, which is the last of the vocabulary. The palette is not among the
weights: `preprocessor_config.json` has it as `clusters`, from -1 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any, cast

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families.image_transformer import ImageTransformerConfig
from regard.interop.huggingface.gpt import BUFFERS, KEYS
from regard.interop.huggingface.mapping import Blocks, Choice, Config, Layout, Number, Only, Settings, conv, scale, sizes, table

PALETTE, CLUSTERS = "palette_VC", "clusters"
COLOURS = 3
ACTIVATIONS = {"quick_gelu": "quick_gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}

BLOCK = (
    *scale("self.norm", "ln_1"),
    *conv("self.layer.project", "attn.c_attn", "3D", "D"),
    *conv("self.layer.out", "attn.c_proj", "D", "D"),
    *scale("ffn.norm", "ln_2"),
    *conv("ffn.layer.expand", "mlp.c_fc", "F", "D"),
    *conv("ffn.layer.contract", "mlp.c_proj", "D", "F"),
)


def _ours(settings: Settings) -> Settings:
    positions, vocabulary = settings["positions"], settings["vocabulary"]
    side = isqrt(positions)
    if side**2 != positions:
        raise UserError(f"n_positions={positions} is no number of pixels of a square, such as 1024; this version reads squares.")
    if vocabulary < 3:
        raise UserError(f"vocab_size={vocabulary} has no two colours beside the start token.")
    rest = {key: value for key, value in settings.items() if key != "positions"}
    return rest | {"image_size": side, "levels": vocabulary - 1}


def _theirs(settings: Settings) -> Settings:
    return {**settings, "positions": settings["image_size"] ** 2, "vocabulary": settings["levels"] + 1}


def _implied(settings: Settings) -> Settings:
    said = {key: settings[key] for key in ("image_size", "levels")}  # by n_positions and vocab_size
    kind = {"pixels": "palette", "grid": False, "position": "learned", "norm": "rms", "norm_placement": "pre"}
    return {**said, **kind, "mixer": "softmax", "visibility": "full", "feedforward": 4 * settings["width"]}


def read_palette(config: Config, described: Mapping[str, Any] | None, where: str) -> dict[str, Tensor]:
    """Return the palette of a `preprocessor_config.json`, one colour of three numbers for each output."""
    levels = cast(ImageTransformerConfig, config).levels
    if described is None:
        raise UserError(
            f"There is no {where}, which has the colours of this model as {CLUSTERS}; copy it from where the model is."
        )
    if described.get("do_color_quantize") is False:
        raise UserError(f"{where} has do_color_quantize=false; this version of Regard reads images by their colours' clusters.")
    rows = described.get(CLUSTERS)
    whole = isinstance(rows, list) and all(isinstance(row, list) and len(row) == COLOURS for row in rows)
    if not whole or not all(type(number) in (int, float) and abs(number) <= 1 for row in cast(Any, rows) for number in row):
        raise UserError(f"{where} has no {CLUSTERS} that are colours; {levels} lists of 3 numbers from -1 to 1 are expected.")
    if len(cast(Any, rows)) != levels:
        raise UserError(f"{where} has {len(cast(Any, rows))} {CLUSTERS}, and the model writes {levels} colours; copy both again.")
    return {PALETTE: torch.tensor(rows, dtype=torch.float32)}


def _preprocessor(config: Config) -> dict[str, Any]:
    side = cast(ImageTransformerConfig, config).image_size
    return {
        "image_processor_type": "ImageGPTImageProcessor",
        "do_resize": True,
        "size": {"height": side, "width": side},
        "resample": 2,
        "do_normalize": True,
        "do_color_quantize": True,
    }


def _sizes(config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
    own = cast(ImageTransformerConfig, config)
    images = {"V": own.order.rows, "P": own.order.length, "levels": own.levels}
    return sizes(config, vocabulary, labels, target) | images


IMAGEGPT = Layout(
    model_type="imagegpt",
    architectures={"ImageGPTForCausalImageModeling": ()},
    config=ImageTransformerConfig,
    keys={
        **KEYS,
        "vocab_size": Number("vocabulary", 513),
        "n_positions": Number("positions", 1024),
        "n_embd": Number("width", 512),
        "n_layer": Number("layers", 24),
        "n_head": Number("heads", 8),
        "n_inner": Number("feedforward", None),
        "activation_function": Choice("activation", ACTIVATIONS, "quick_gelu"),
        "tie_word_embeddings": Only((False,)),
        "scale_attn_weights": Only((True,)),
        "scale_attn_by_inverse_layer_idx": Only((False,)),
        "reorder_and_upcast_attn": Only((False,)),
    },
    implied=_implied,
    prefix="transformer.",
    whole=(
        *table("embed.tokens", "wte", "V"),
        *table("embed.positions.scheme.table", "wpe", "P"),
        *scale("decoder.norm", "ln_f"),
        *table("head.project", "lm_head", "levels", inside=False),
    ),
    blocks=(Blocks("decoder.blocks", "h", BLOCK),),
    buffers=BUFFERS,
    sized=_sizes,
    ours=_ours,
    theirs=_theirs,
    always={"tie_word_embeddings": False},
    preprocessor=_preprocessor,
    clusters=PALETTE,
)
