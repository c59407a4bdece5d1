"""ViT and DeiT as timm stores them: a `config.json` with an `architecture` in place of a `model_type`, and its own tensor names.

The config names a size and says how pixels are normalised; the rest is read from the shapes of the tensors, but for the number of
heads, which no shape shows: heads are as many as the size has in its paper, or as `model_args` says. Queries, keys and values are
one matrix in timm as they are here, epsilon is 1e-6, and positions are interpolated with antialiasing.

What computes otherwise is refused: mean pooling with a norm behind it (`fc_norm`), scaled layers, normalised queries, positions
without a row for the class token. Such a folder is read, not written: `regard export` writes `vit` and `deit` of transformers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import isqrt
from typing import Any

from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.families.deit import DeiTConfig
from regard.interop.huggingface.mapping import COMMON, Blocks, Entry, Flag, Layout, Meaning, ignored, linear, norm
from regard.interop.huggingface.vit import KEYS, VIT

HEADS = {"tiny": 3, "small": 6, "base": 12, "large": 16, "huge": 16}  # of the sizes that have no other in timm
ARCHITECTURE = re.compile(r"(vit|deit)_(?P<size>[a-z]+)(_distilled)?_patch(?P<patch>\d+)_.*")
DISTILLED = "dist_token"
EPSILON = 1e-6
TIMM_KEYS: dict[str, Meaning] = {
    **{key: meaning for key, meaning in KEYS.items() if key not in COMMON},
    "antialias": Flag("antialias", True),
    **ignored("model_type id2label num_labels architecture preprocessor"),
}


def as_config(raw: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> dict[str, Any]:
    """Return the keys of transformers' `config.json` that say what timm's and the tensors say."""
    name = str(raw["architecture"]).partition(".")[0]
    found = ARCHITECTURE.fullmatch(name)
    if found is None or found["size"] not in HEADS:
        known = [f"vit_{size}_patch16_224" for size in HEADS]
        raise UserError(f"{where} has the architecture {name[:60]!r} of timm, which cannot be opened here{nearest(name, known)}")
    if pooled := next((name for name in tensors if name.startswith("fc_norm.")), None):
        raise UserError(f"{where}: its weights have {pooled}, a norm behind mean pooling, which a vit here does not have.")
    if not {"pos_embed", "patch_embed.proj.weight", "cls_token", "blocks.0.mlp.fc1.weight"} <= tensors.keys():
        raise UserError(f"{where}: its weights are not those of a ViT of timm with a class token; download or copy them again.")
    said = {**raw, **(raw.get("pretrained_cfg") or {})}
    rows, extra = tensors["pos_embed"].shape[1], 1 + (DISTILLED in tensors)
    width, colours, patch, _ = tensors["patch_embed.proj.weight"].shape
    side = isqrt(max(0, rows - extra))
    if side * side != rows - extra:
        raise UserError(f"{where}: {rows} positions are none for a square image with {extra} learned tokens in front.")
    arguments: Any = raw.get("model_args") if isinstance(raw.get("model_args"), dict) else {}
    labels = said.get("label_names")
    labels = labels if isinstance(labels, list) and labels else None
    classes = len(tensors["head.weight"]) if "head.weight" in tensors else 0
    return {
        "architecture": name,
        "model_type": DEIT_MODEL if extra == 2 else VIT_MODEL,
        "hidden_size": width,
        "num_hidden_layers": 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("blocks.")),
        "num_attention_heads": arguments.get("num_heads", HEADS[found["size"]]),
        "intermediate_size": len(tensors["blocks.0.mlp.fc1.weight"]),
        "layer_norm_eps": EPSILON,
        "image_size": side * patch,
        "patch_size": patch,
        "num_channels": colours,
        "id2label": {str(n): label for n, label in enumerate(labels or [f"LABEL_{n}" for n in range(classes)])},
        "preprocessor": {
            "image_mean": list(said.get("mean", (0.5,))),
            "image_std": list(said.get("std", (0.5,))),
            "do_center_crop": said.get("crop_pct", 1.0) != 1.0,
        },
    }


def _tokens(*tokens: tuple[str, str]) -> tuple[Entry, ...]:
    return (
        *(Entry(f"embed.{ours}_token", (theirs,), ("D",), ones=2) for ours, theirs in tokens),
        Entry("embed.vectors.table_MD", ("pos_embed",), ("G", "D"), ones=1),
        Entry("embed.cells.project.weight", ("patch_embed.proj.weight",), ("D", "P"), pixels=True),
        Entry("embed.cells.project.bias", ("patch_embed.proj.bias",), ("D",)),
        *norm("encoder.norm", "norm"),
    )


BLOCK = (
    *norm("self.norm", "norm1"),
    *linear("self.layer.project", "attn.qkv", "3I", "D"),
    *linear("self.layer.out", "attn.proj", "D", "I"),
    *norm("ffn.norm", "norm2"),
    *linear("ffn.layer.expand", "mlp.fc1", "F", "D"),
    *linear("ffn.layer.contract", "mlp.fc2", "D", "F"),
)
VIT_MODEL, DEIT_MODEL = "timm vit", "timm deit"
TIMM_VIT: Layout = replace(
    VIT,
    model_type=VIT_MODEL,
    architectures={},
    keys=TIMM_KEYS,
    prefix="",
    whole=_tokens(("class", "cls_token")),
    blocks=(Blocks("encoder.blocks", "blocks", BLOCK),),
    buffers=("\0",),
    heads={"classes": linear("classes.project", "head", "C", "D", inside=False)},
    unused=(),
)
TIMM_DEIT: Layout = replace(
    TIMM_VIT,
    model_type=DEIT_MODEL,
    config=DeiTConfig,
    whole=_tokens(("class", "cls_token"), ("distillation", DISTILLED)),
    heads={
        "classes": linear("classes.project", "head", "C", "D", inside=False),
        "distilled": linear("distilled.project", "head_dist", "C", "D", inside=False),
    },
)
LAYOUTS = {layout.model_type: layout for layout in (TIMM_VIT, TIMM_DEIT)}
