"""ViT and DeiT as they are public: `vit` and `deit` of transformers, by the names that lie on disk.

transformers 5 calls the modules otherwise in memory, and reads and writes the names of version 4. A patch is a convolution there,
with colours first. What colours become before the first layer is not in `config.json` but in `preprocessor_config.json`: numbers
of 0 to 255 are scaled, a mean is subtracted, and a deviation divides. Here both are settings of the model.

A model without classes is written as `ViTModel`, whose pooler only that class computes with: it is left out where it is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.core.errors import UserError
from regard.families.deit import DeiTConfig
from regard.families.vit import ViTConfig
from regard.interop.huggingface.mapping import (
    COMMON,
    Blocks,
    Choice,
    Config,
    Described,
    Entry,
    Layout,
    Meaning,
    Number,
    Only,
    Settings,
    ignored,
    linear,
    norm,
    sizes,
)
from regard.model.vision import ImageSettings
from regard.model.vision.positions import Grid, GridVectors

ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"}
ACTIVATIONS |= {"gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh"}
KEYS: dict[str, Meaning] = {
    **COMMON,
    "hidden_size": Number("width", 768),
    "num_hidden_layers": Number("layers", 12),
    "num_attention_heads": Number("heads", 12),
    "intermediate_size": Number("feedforward", 3072),
    "hidden_act": Choice("activation", ACTIVATIONS, "gelu"),
    "hidden_dropout_prob": Number("dropout", 0.0, whole=False),
    "attention_probs_dropout_prob": Number("attention_dropout", 0.0, whole=False),
    "layer_norm_eps": Number("norm_epsilon", 1e-12, whole=False),
    "image_size": Number("image_size", 224),
    "patch_size": Number("patch", 16),
    "num_channels": Number("colours", 3),
    "qkv_bias": Only((True,)),
    **ignored("encoder_stride pooler_output_size pooler_act"),
}
PIXELS = ("pixel_mean", "pixel_deviation")
BYTE = 255


def embeddings(*tokens: tuple[str, str]) -> tuple[Entry, ...]:
    """Map learned tokens, positions and the patch matrix."""
    patches = "embeddings.patch_embeddings.projection"
    return (
        *(Entry(f"embed.{ours}_token", (f"embeddings.{theirs}_token",), ("D",), ones=2) for ours, theirs in tokens),
        Entry("embed.vectors.table_MD", ("embeddings.position_embeddings",), ("G", "D"), ones=1),
        Entry("embed.cells.project.weight", (f"{patches}.weight",), ("D", "P"), pixels=True),
        Entry("embed.cells.project.bias", (f"{patches}.bias",), ("D",)),
    )


BLOCK = (
    *norm("self.norm", "layernorm_before"),
    *linear("self.layer.project", "attention.attention.query,attention.attention.key,attention.attention.value", "3I", "D"),
    *linear("self.layer.out", "attention.output.dense", "D", "I"),
    *norm("ffn.norm", "layernorm_after"),
    *linear("ffn.layer.expand", "intermediate.dense", "F", "D"),
    *linear("ffn.layer.contract", "output.dense", "D", "F"),
)


def ours(settings: Settings) -> Settings:
    if settings["colours"] not in (1, 3):
        raise UserError(f"num_channels={settings['colours']}; this version of Regard reads images of 1 or 3 colours.")
    return settings


def pixels_of(config: Config, described: Mapping[str, Any] | None, where: str) -> Described:
    """Return the config whose pixels are as a `preprocessor_config.json` makes them: (x * factor - mean) / deviation."""
    assert isinstance(config, ImageSettings)
    if described is None:
        return Described(
            config, (f"There is no {where}; colours become numbers from -1 to 1, as transformers has it by default.",)
        )
    factor = described.get("rescale_factor", 1 / BYTE) if described.get("do_rescale", True) else 1.0
    normalised = described.get("do_normalize", True)
    mean, deviation = (_numbers(described.get(key, 0.5), key, where) for key in ("image_mean", "image_std"))
    if not normalised:
        mean, deviation = (0.0,), (1.0,)
    if type(factor) not in (int, float) or not factor > 0:
        raise UserError(f"{where} has rescale_factor={factor!r}; a number above 0 is expected.")
    scale = float(factor) * BYTE
    exact = scale if abs(scale - 1) > 1e-6 else 1.0
    changed = replace(config, pixel_mean=_alike(x / exact for x in mean), pixel_deviation=_alike(x / exact for x in deviation))
    return Described(changed, tuple(_other_sizes(config, described, where)))


def _numbers(given: Any, key: str, where: str) -> tuple[float, ...]:
    found = tuple(given) if isinstance(given, list) else (given,)
    if not found or not all(type(number) in (int, float) for number in found):
        raise UserError(f"{where} has {key}={given!r}; a list with a number for each colour is expected.")
    return tuple(map(float, found))


def _alike(numbers: Any) -> tuple[float, ...]:
    found = tuple(numbers)
    return found[:1] if len({*found}) == 1 else found


def _other_sizes(config: ImageSettings, described: Mapping[str, Any], where: str) -> list[str]:
    """Say what is done to images there and not here."""
    if described.get("do_center_crop"):
        return [f"{where} crops the middle out of larger images; here whole images are resized to {config.image_size} pixels."]
    size = described.get("size")
    sides = {*size.values()} if isinstance(size, dict) else {size}
    if sides - {config.image_size, None}:
        return [f"{where} has size={size}; here images are resized to {config.image_size} pixels, as config.json has it."]
    return []


def preprocessor(config: Config) -> dict[str, Any]:
    """Return the preprocessor_config.json of a model's pixels."""
    assert isinstance(config, ImageSettings)
    mean, deviation = (list(part * (config.colours // len(part))) for part in (config.pixel_mean, config.pixel_deviation))
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": config.image_size, "width": config.image_size},
        "resample": 2,  # bilinear
        "do_rescale": True,
        "rescale_factor": 1 / BYTE,
        "do_normalize": True,
        "image_mean": mean,
        "image_std": deviation,
    }


def implied(settings: Settings) -> Settings:
    """Waves are written as the table that they are."""
    return {"position": "sinusoidal"} if settings.get("position") == "sinusoidal" else {}


def computed(config: Config, prefix: str) -> dict[str, Tensor]:
    """Return the positions of a model that computes them."""
    assert isinstance(config, ViTConfig)
    if config.position != "sinusoidal":
        return {}
    return {f"{prefix}embeddings.position_embeddings": waves(config, config.width)}


def waves(config: ViTConfig, width: int) -> Tensor:
    """vectors_1MD of the waves of a model's grid."""
    found = GridVectors("sinusoidal", width, Grid(*config.grid), len(config.extra_tokens))(Grid(*config.grid))
    assert found is not None
    return found[None].contiguous()


def vit_sizes(config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
    assert isinstance(config, ViTConfig)
    learned = config.context if config.position == "learned" else 0
    return sizes(config, vocabulary, labels, target) | {"P": config.patch**2 * config.colours, "G": learned}


VIT = Layout(
    model_type="vit",
    architectures={"ViTForImageClassification": ("classes",), "ViTModel": ()},
    config=ViTConfig,
    keys=KEYS,
    implied=implied,
    prefix="vit.",
    whole=(*embeddings(("class", "cls")), *norm("encoder.norm", "layernorm")),
    blocks=(Blocks("encoder.blocks", "encoder.layer", BLOCK),),
    buffers=("embeddings.mask_token",),  # which only pre-training reads
    heads={"classes": linear("classes.project", "classifier", "C", "D", inside=False)},
    ours=ours,
    unused=("pooler.dense.weight", "pooler.dense.bias"),
    sized=vit_sizes,
    elsewhere=PIXELS,
    computed=computed,
    pixels=pixels_of,
    preprocessor=preprocessor,
)
DEIT = replace(
    VIT,
    model_type="deit",
    architectures={"DeiTForImageClassificationWithTeacher": ("classes", "distilled"), "DeiTModel": ()},
    config=DeiTConfig,
    prefix="deit.",
    whole=(*embeddings(("class", "cls"), ("distillation", "distillation")), *norm("encoder.norm", "layernorm")),
    heads={
        "classes": linear("classes.project", "cls_classifier", "C", "D", inside=False),
        "distilled": linear("distilled.project", "distillation_classifier", "C", "D", inside=False),
    },
)
