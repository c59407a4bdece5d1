"""Every layout, by the `model_type` that transformers knows it under, and which of them a model of ours is written as."""

from __future__ import annotations

from regard.core.errors import UserError, nearest
from regard.families.gpt import GPTConfig
from regard.families.llama import LLaMAConfig
from regard.families.transformer import TransformerConfig
from regard.interop.huggingface.bart import BART, MARIAN, MBART
from regard.interop.huggingface.bert import BERT
from regard.interop.huggingface.bert_variants import CAMEMBERT, DISTILBERT, ELECTRA, ROBERTA
from regard.interop.huggingface.bigbird import BIGBIRD, is_bigbird
from regard.interop.huggingface.gpt import GPT1, GPT2
from regard.interop.huggingface.llama import LLAMA, MISTRAL, QWEN2, QWEN3, layout_for
from regard.interop.huggingface.mapping import Config, Layout
from regard.interop.huggingface.t5 import MT5, T5

DECODERS = (GPT2, GPT1, LLAMA, MISTRAL, QWEN2, QWEN3)
ENCODERS = (BERT, ROBERTA, CAMEMBERT, DISTILBERT, ELECTRA, BIGBIRD)
LAYOUTS = {layout.model_type: layout for layout in (*DECODERS, T5, MT5, BART, MBART, MARIAN, *ENCODERS)}
OF_FAMILY = {"t5": {"pre": T5, "post": T5}, "bart": {"pre": MBART, "post": BART}, "marian": {"pre": MARIAN, "post": MARIAN}}
OF_NORM = {"pre": GPT2, "post": GPT1}
OF_POOLER = {"tanh": BERT, "relu": DISTILBERT, "gelu": ELECTRA, "gelu_tanh": BIGBIRD, "mean": BERT}


def layout_of(config: Config, model_type: str = "") -> Layout:
    """Return the layout of this name, or if none is given, the one that computes the same as the model."""
    if model_type:
        fitting = [name for name, layout in LAYOUTS.items() if layout.config is type(config)]
        if model_type not in fitting:
            raise UserError(f"A {config.family} cannot be written as {model_type!r}{nearest(model_type, fitting)}")
        return LAYOUTS[model_type]
    if isinstance(config, LLaMAConfig):
        return layout_for(config)
    if isinstance(config, TransformerConfig):
        return OF_FAMILY[config.family][config.norm_placement]
    if isinstance(config, GPTConfig):
        return OF_NORM[config.norm_placement]
    if is_bigbird(config):
        return BIGBIRD
    return ROBERTA if config.first_position and config.pooler == "tanh" else OF_POOLER[config.pooler]
