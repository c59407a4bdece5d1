"""The published sizes, as data: what `regard explain gpt3-175b` counts without building it.

    GPT          Radford et al. 2018
    GPT-2        Radford et al. 2019, table 2; its parameters are those of the released weights, as the paper counted too few
    GPT-3        Brown et al. 2020, tables 2.1 (layers, width, heads) and D.1 (parameters, tokens, compute)
    BERT         Devlin et al. 2019, section 3; counted with the head for masked words, as are
    RoBERTa      Liu et al. 2019, table 9; its parameters as its authors give them with the weights
    CamemBERT    Martin et al. 2020, section 4
    DistilBERT   Sanh et al. 2019, table 3
    ELECTRA      Clark et al. 2020, tables 1 to 3 (parameters) and 6 (shapes); counted with its generator, stated without
    Transformer  Vaswani et al. 2017, tables 2 and 3
    LLaMA        Touvron et al. 2023 (Llama 2), Grattafiori et al. 2024 (Llama 3), Zhang et al. 2024 (TinyLlama), Jiang et al.
                 2023 (Mistral), Yang et al. 2024 and 2025 (Qwen2, Qwen3); their parameters are those of the released weights
    T5           Raffel et al. 2020; T5 1.1 and mT5 (Xue et al. 2021), ByT5 (Xue et al. 2022)
    BART         Lewis et al. 2020, mBART (Liu et al. 2020) and OPUS-MT (Tiedemann & Thottingal 2020), as released; counted with
                 the bias of each word, which is stated without
    Perceiver    Jaegle et al. 2022, tables 9 and 10, as released
    Images       in `published_image_sizes.py`

Two rows of GPT-3's table 2.1 contradict themselves, as heads times head width is not the width: 1.3B (24 x 128, width 2,048) and
13B (40 x 128, width 5,140). What agrees with table D.1 to its last digit is taken: 16 heads of 128, and a width of 5,120.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from regard.families.bart import BARTConfig
from regard.families.base import MASKED_WORDS, Heads, Sizes
from regard.families.bert import BERTConfig
from regard.families.electra import ELECTRAConfig
from regard.families.gpt import GPTConfig
from regard.families.llama import LLaMAConfig
from regard.families.marian import MarianConfig
from regard.families.perceiver import PerceiverConfig
from regard.families.published_image_sizes import IMAGE_SIZES
from regard.families.t5 import T5Config
from regard.families.transformer import TransformerConfig
from regard.model.block import BodyConfig

ROBERTA = "Liu et al. 2019, RoBERTa: a robustly optimized BERT pretraining approach"
CAMEMBERT = "Martin et al. 2020, CamemBERT: a tasty French language model"
LLAMA2 = "Touvron et al. 2023, Llama 2: open foundation and fine-tuned chat models"
LLAMA3 = "Grattafiori et al. 2024, The Llama 3 herd of models"
QWEN2 = "Yang et al. 2024, Qwen2 technical report"
QWEN3 = "Yang et al. 2025, Qwen3 technical report"
PETAFLOP_DAY = 1e15 * 86_400  # operations


@dataclass(frozen=True, kw_only=True)
class Size:
    name: str
    title: str
    paper: str
    config: BodyConfig | PerceiverConfig
    vocabulary: int
    stated: float  # parameters, as published
    classes: int = 0  # of images
    tokens: float | None = None  # trained on, as published
    petaflop_days: float | None = None  # spent on them, as published
    note: str = ""

    @property
    def sizes(self) -> Sizes:
        heads = Heads(words=False, classes=self.classes) if self.classes else MASKED_WORDS
        return Sizes(vocabulary=self.vocabulary, heads=heads)


def _gpt2(name: str, layers: int, width: int, heads: int, stated: float) -> Size:
    return Size(
        name=f"gpt2-{name}",
        title=f"GPT-2 {name}",
        paper="Radford et al. 2019, Language models are unsupervised multitask learners",
        config=GPTConfig(layers=layers, width=width, heads=heads, feedforward=4 * width, maximum_length=1024),
        vocabulary=50_257,
        stated=stated,
    )


def _gpt3(name: str, layers: int, width: int, heads: int, stated: float, petaflop_days: float, note: str = "") -> Size:
    return Size(
        name=f"gpt3-{name}",
        title=f"GPT-3 {name.upper()}",
        paper="Brown et al. 2020, Language models are few-shot learners",
        config=GPTConfig(layers=layers, width=width, heads=heads, feedforward=4 * width, maximum_length=2048, dropout=0.0),
        vocabulary=50_257,
        stated=stated,
        tokens=300e9,
        petaflop_days=petaflop_days,
        note=note or "every other layer of the paper's is sparse, which changes no parameter; all are counted as dense here",
    )


def _bert(name: str, layers: int, width: int, heads: int, stated: float) -> Size:
    return Size(
        name=f"bert-{name}",
        title=f"BERT {name}",
        paper="Devlin et al. 2019, BERT: pre-training of deep bidirectional Transformers for language understanding",
        config=BERTConfig(layers=layers, width=width, heads=heads, feedforward=4 * width),
        vocabulary=30_522,
        stated=stated,
        tokens=128e9,  # a million steps of 128,000
    )


def _roberta(name: str, title: str, paper: str, layers: int, width: int, heads: int, vocabulary: int, stated: float) -> Size:
    parts = BERTConfig(segments=1, first_position=2, norm_epsilon=1e-5)
    return Size(
        name=name,
        title=title,
        paper=paper,
        config=replace(parts, layers=layers, width=width, heads=heads, feedforward=4 * width),
        vocabulary=vocabulary,
        stated=stated,
    )


def _electra(name: str, layers: int, width: int, heads: int, words: int, generator: int, stated: float) -> Size:
    shape = ELECTRAConfig(layers=layers, width=width, heads=heads, feedforward=4 * width, generator_width=generator)
    return Size(
        name=f"electra-{name}",
        title=f"ELECTRA {name}",
        paper="Clark et al. 2020, ELECTRA: pre-training text encoders as discriminators rather than generators",
        config=replace(shape, embedding_width=words),
        vocabulary=30_522,
        stated=stated,
        note="the paper counts the discriminator alone, which is what is fine-tuned",
    )


def _transformer(name: str, width: int, heads: int, dropout: float, stated: float, tokens: float, flops: float) -> Size:
    return Size(
        name=f"transformer-{name}",
        title=f"Transformer {name}",
        paper="Vaswani et al. 2017, Attention is all you need",
        config=TransformerConfig(width=width, heads=heads, feedforward=4 * width, dropout=dropout),
        vocabulary=37_000,
        stated=stated,
        tokens=tokens,  # of the target: 25,000 a step
        petaflop_days=flops / PETAFLOP_DAY,
        note="the paper takes its operations from hours and the GPUs' sustained speed, so they are no count",
    )


def _llama(
    name: str,
    paper: str,
    shape: tuple[int, int, int, int, int],
    vocabulary: int,
    stated: float,
    tokens: float | None = None,
    **parts: Any,
) -> Size:
    """`shape` is layers, width, heads, key heads, feed-forward width."""
    layers, width, heads, kv_heads, feedforward = shape
    title = name.replace("-", " ").title().replace("Tinyllama", "TinyLlama")
    sizes: dict[str, Any] = {
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": kv_heads % heads,
        "feedforward": feedforward,
    }
    config = LLaMAConfig(**(sizes | parts))
    return Size(name=name, title=title, paper=paper, config=config, vocabulary=vocabulary, stated=stated, tokens=tokens)


_LONG_ROPE: dict[str, Any] = {"rotary_base": 500_000.0, "rotary_scaling": "llama3", "maximum_length": 131_072}
_QWEN2: dict[str, Any] = {"qkv_bias": True, "rotary_base": 1e6, "maximum_length": 32_768, "norm_epsilon": 1e-6}
_QWEN3: dict[str, Any] = {"qk_norm": True, "head_width": 128, "rotary_base": 1e6, "maximum_length": 40_960, "norm_epsilon": 1e-6}
_LLAMAS = (
    _llama(
        "tinyllama-1.1b",
        "Zhang et al. 2024, TinyLlama: an open-source small language model",
        (22, 2048, 32, 4, 5632),
        32_000,
        1.1e9,
        tokens=3e12,
    ),
    _llama("llama2-7b", LLAMA2, (32, 4096, 32, 32, 11_008), 32_000, 6.74e9, tokens=2e12, maximum_length=4096),
    _llama("llama2-13b", LLAMA2, (40, 5120, 40, 40, 13_824), 32_000, 13.0e9, tokens=2e12, maximum_length=4096),
    _llama("llama2-70b", LLAMA2, (80, 8192, 64, 8, 28_672), 32_000, 69.0e9, tokens=2e12, maximum_length=4096),
    _llama("llama3-8b", LLAMA3, (32, 4096, 32, 8, 14_336), 128_256, 8.03e9, tokens=15e12, rotary_base=5e5, maximum_length=8192),
    _llama("llama3-70b", LLAMA3, (80, 8192, 64, 8, 28_672), 128_256, 70.6e9, tokens=15e12, rotary_base=5e5, maximum_length=8192),
    _llama("llama3.2-1b", LLAMA3, (16, 2048, 32, 8, 8192), 128_256, 1.24e9, tie="output", rotary_factor=32.0, **_LONG_ROPE),
    _llama("llama3.2-3b", LLAMA3, (28, 3072, 24, 8, 8192), 128_256, 3.21e9, tie="output", rotary_factor=32.0, **_LONG_ROPE),
    _llama(
        "mistral-7b",
        "Jiang et al. 2023, Mistral 7B",
        (32, 4096, 32, 8, 14_336),
        32_000,
        7.24e9,
        visibility="window(4095)",
        maximum_length=32_768,
    ),
    _llama("qwen2-0.5b", QWEN2, (24, 896, 14, 2, 4864), 151_936, 0.49e9, tie="output", **_QWEN2),
    _llama("qwen2-1.5b", QWEN2, (28, 1536, 12, 2, 8960), 151_936, 1.54e9, tie="output", **_QWEN2),
    _llama("qwen2-7b", QWEN2, (28, 3584, 28, 4, 18_944), 152_064, 7.62e9, **_QWEN2),
    _llama("qwen3-0.6b", QWEN3, (28, 1024, 16, 8, 3072), 151_936, 0.6e9, tie="output", **_QWEN3),
    _llama("qwen3-8b", QWEN3, (36, 4096, 32, 8, 12_288), 151_936, 8.19e9, **_QWEN3),
)


def _t5(name: str, paper: str, shape: tuple[int, int, int, int, int], vocabulary: int, stated: float, **parts: Any) -> Size:
    """`shape` is layers, width, heads, head width, feed-forward width."""
    layers, width, heads, head_width, feedforward = shape
    sizes: dict[str, Any] = {
        "layers": layers,
        "width": width,
        "heads": heads,
        "head_width": head_width,
        "feedforward": feedforward,
    }
    config = T5Config(**(sizes | parts))
    return Size(name=name, title=name.replace("-", " "), paper=paper, config=config, vocabulary=vocabulary, stated=stated)


T5 = "Raffel et al. 2020, Exploring the limits of transfer learning with a unified text-to-text Transformer"
MT5 = "Xue et al. 2021, mT5: a massively multilingual pre-trained text-to-text Transformer"
BYT5 = "Xue et al. 2022, ByT5: towards a token-free future with pre-trained byte-to-byte models"
BART = "Lewis et al. 2020, BART: denoising sequence-to-sequence pre-training"
MBART = "Liu et al. 2020, Multilingual denoising pre-training for neural machine translation"
OPUS = "Tiedemann & Thottingal 2020, OPUS-MT: building open translation services for the world"
_GEGLU: dict[str, Any] = {"feedforward_kind": "gated", "activation": "gelu_tanh", "tie": "inputs", "scaled_head": False}
_LARGE: dict[str, Any] = {"width": 1024, "heads": 16, "feedforward": 4096, "layers": 12}
_SEQ2SEQ = (
    _t5("t5-small", T5, (6, 512, 8, 64, 2048), 32_128, 60e6),
    _t5("t5-base", T5, (12, 768, 12, 64, 3072), 32_128, 220e6),
    _t5("t5-large", T5, (24, 1024, 16, 64, 4096), 32_128, 770e6),
    _t5("t5-3b", T5, (24, 1024, 32, 128, 16_384), 32_128, 2.8e9),
    _t5("t5-11b", T5, (24, 1024, 128, 128, 65_536), 32_128, 11e9),
    _t5("t5-1.1-small", T5, (8, 512, 6, 64, 1024), 32_128, 77e6, **_GEGLU),
    _t5("t5-1.1-base", T5, (12, 768, 12, 64, 2048), 32_128, 248e6, **_GEGLU),
    _t5("t5-1.1-large", T5, (24, 1024, 16, 64, 2816), 32_128, 783e6, **_GEGLU),
    _t5("mt5-small", MT5, (8, 512, 6, 64, 1024), 250_112, 300e6, **_GEGLU),
    _t5("mt5-base", MT5, (12, 768, 12, 64, 2048), 250_112, 580e6, **_GEGLU),
    _t5("byt5-small", BYT5, (12, 1472, 6, 64, 3584), 384, 300e6, decoder_layers=4, **_GEGLU),
    Size(name="bart-base", title="BART base", paper=BART, config=BARTConfig(), vocabulary=50_265, stated=140e6),
    Size(name="bart-large", title="BART large", paper=BART, config=BARTConfig(**_LARGE), vocabulary=50_265, stated=406e6),
    Size(
        name="mbart-large",
        title="mBART large",
        paper=MBART,
        config=BARTConfig(**_LARGE, norm_placement="pre", scaled_embeddings=True),
        vocabulary=250_027,
        stated=610e6,
    ),
    Size(name="opus-mt", title="OPUS-MT en-de", paper=OPUS, config=MarianConfig(), vocabulary=58_101, stated=74e6),
)
PERCEIVER_IO = "Jaegle et al. 2022, Perceiver IO: a general architecture for structured inputs and outputs"
_BYTES: dict[str, Any] = {
    "reads": "text",
    "positions": "learned",
    "input_width": 768,
    "width": 1280,
    "latents": 256,
    "layers": 26,
}
_BYTES |= {"cross_heads": 8, "qk_width": 256, "value_width": 1280}
_BYTES |= {"decoder_heads": 8, "decoder_qk_width": 256, "decoder_value_width": 768}

_ALL = (
    Size(
        name="gpt1",
        title="GPT",
        paper="Radford et al. 2018, Improving language understanding by generative pre-training",
        config=GPTConfig(norm_placement="post", maximum_length=512),
        vocabulary=40_478,
        stated=117e6,
    ),
    _gpt2("small", 12, 768, 12, 124e6),
    _gpt2("medium", 24, 1024, 16, 355e6),
    _gpt2("large", 36, 1280, 20, 774e6),
    _gpt2("xl", 48, 1600, 25, 1_558e6),
    _gpt3("125m", 12, 768, 12, 125e6, 2.60),
    _gpt3("350m", 24, 1024, 16, 356e6, 7.42),
    _gpt3("760m", 24, 1536, 16, 760e6, 15.8),
    _gpt3("1.3b", 24, 2048, 16, 1_320e6, 27.5, "table 2.1 has 24 heads of 128, which is not its width; here 16 of 128"),
    _gpt3("2.7b", 32, 2560, 32, 2_650e6, 55.2),
    _gpt3("6.7b", 32, 4096, 32, 6_660e6, 139),
    _gpt3("13b", 40, 5120, 40, 12_850e6, 268, "table 2.1 has a width of 5,140, which is not 40 heads of 128; here 5,120"),
    _gpt3("175b", 96, 12_288, 96, 174_600e6, 3_640),
    _bert("base", 12, 768, 12, 110e6),
    _bert("large", 24, 1024, 16, 340e6),
    _roberta("roberta-base", "RoBERTa base", ROBERTA, 12, 768, 12, 50_265, 125e6),
    _roberta("roberta-large", "RoBERTa large", ROBERTA, 24, 1024, 16, 50_265, 355e6),
    _roberta("camembert-base", "CamemBERT base", CAMEMBERT, 12, 768, 12, 32_005, 110e6),
    Size(
        name="distilbert",
        title="DistilBERT",
        paper="Sanh et al. 2019, DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
        config=BERTConfig(layers=6, segments=0, pooler="relu"),
        vocabulary=30_522,
        stated=66e6,
    ),
    _electra("small", 12, 256, 4, 128, 64, 14e6),
    _electra("base", 12, 768, 12, 0, 256, 110e6),
    _electra("large", 24, 1024, 16, 0, 256, 335e6),
    _transformer("base", 512, 8, 0.1, 65e6, 100_000 * 25_000, 3.3e18),
    _transformer("big", 1024, 16, 0.3, 213e6, 300_000 * 25_000, 2.3e19),
    *_LLAMAS,
    *_SEQ2SEQ,
    *(Size(**fields, vocabulary=0) for fields in IMAGE_SIZES),
    Size(
        name="language-perceiver",
        title="Perceiver IO on bytes",
        paper=PERCEIVER_IO,
        config=PerceiverConfig(**_BYTES),
        vocabulary=262,
        stated=201e6,
    ),
    Size(
        name="vision-perceiver-fourier",
        title="Perceiver IO on pixels with Fourier features",
        paper=PERCEIVER_IO,
        config=PerceiverConfig(width=1024, latents=512, layers=6, blocks=8, image_size=224),
        vocabulary=0,
        classes=1000,
        stated=48.4e6,
    ),
)

SIZES: dict[str, Size] = {size.name: size for size in _ALL}
