"""Every layout, by the `model_type` that transformers knows it under, and which of them a model of ours is written as.

A layout is imported when it is looked up, so that opening a run imports none of the families that it does not have.
"""

from __future__ import annotations

from regard.core.config import LazyRegistry
from regard.core.errors import UserError, nearest
from regard.families.gpt import GPTConfig
from regard.families.transformer import TransformerConfig
from regard.interop.huggingface.mapping import Config, Layout

_PLACES = {
    "gpt2": "gpt:GPT2",
    "openai-gpt": "gpt:GPT1",
    "transfo-xl": "transformer_xl:TRANSFO_XL",
    "llama": "llama:LLAMA",
    "mistral": "llama:MISTRAL",
    "qwen2": "llama:QWEN2",
    "qwen3": "llama:QWEN3",
    "t5": "t5:T5",
    "mt5": "t5:MT5",
    "bart": "bart:BART",
    "mbart": "bart:MBART",
    "marian": "bart:MARIAN",
    "bert": "bert:BERT",
    **{name: f"bert_variants:{name.upper()}" for name in ("roberta", "camembert", "distilbert", "electra")},
    "big_bird": "bigbird:BIGBIRD",
    "vit": "vit:VIT",
    "deit": "vit:DEIT",
    "vit_mae": "vit_mae:VIT_MAE",
    "imagegpt": "imagegpt:IMAGEGPT",
    "perceiver": "perceiver:PERCEIVER",
    "patchtst": "patchtst:PATCHTST",
    "time_series_transformer": "time_series_transformer:TIME_SERIES_TRANSFORMER",
}
LAYOUTS: LazyRegistry[Layout] = LazyRegistry({name: f"regard.interop.huggingface.{place}" for name, place in _PLACES.items()})
# The model_type of families that have one alone.
OF_OTHERS = {"vit": "vit", "deit": "deit", "vit_mae": "vit_mae", "image_transformer": "imagegpt", "patchtst": "patchtst"}
OF_OTHERS |= {"time_series_transformer": "time_series_transformer"}
OF_FAMILY = {"t5": {"pre": "t5", "post": "t5"}, "bart": {"pre": "mbart", "post": "bart"}}
OF_FAMILY |= {"marian": {"pre": "marian", "post": "marian"}}
OF_NORM = {"pre": "gpt2", "post": "openai-gpt"}
OF_POOLER = {"tanh": "bert", "relu": "distilbert", "gelu": "electra", "gelu_tanh": "big_bird", "mean": "bert"}


def layout_of(config: Config, model_type: str = "") -> Layout:
    """Return the layout of this name, or if none is given, the one that computes the same as the model."""
    if model_type:
        fitting = [name for name, layout in LAYOUTS.items() if layout.config is type(config)]
        if model_type not in fitting:
            raise UserError(f"A {config.family} cannot be written as {model_type!r}{nearest(model_type, fitting)}")
        return LAYOUTS[model_type]
    family: str = config.family
    if family in OF_OTHERS:
        return LAYOUTS[OF_OTHERS[family]]
    if family == "perceiver":
        from regard.interop.huggingface.perceiver import layout_for_perceiver

        return layout_for_perceiver(config)
    if family == "llama":
        from regard.interop.huggingface.llama import layout_for

        return layout_for(config)
    if family == "transformer_xl":
        raise UserError("A transformer_xl cannot be written for transformers, which has no such model since version 4.36.")
    if isinstance(config, TransformerConfig):
        return LAYOUTS[OF_FAMILY[family][config.norm_placement]]
    if isinstance(config, GPTConfig):
        return LAYOUTS[OF_NORM[config.norm_placement]]
    return LAYOUTS[_encoder(config)]


def _encoder(config: Config) -> str:
    from regard.interop.huggingface.bigbird import is_bigbird

    if is_bigbird(config):
        return "big_bird"
    return "roberta" if config.first_position and config.pooler == "tanh" else OF_POOLER[config.pooler]  # type: ignore[union-attr]
