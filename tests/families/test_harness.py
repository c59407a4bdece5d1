"""Every family, in several choices of parts, through the one harness."""

import inspect
from typing import Any

import pytest

from regard.families import FAMILIES
from regard.families.base import Heads, Sizes
from regard.model.sparse import dispatch
from tests.families import harness
from tests.families.harness import Variant

SMALL = dict(width=24, heads=3, feedforward=40, layers=2, dropout=0.0)
ASKED = dict(qk_width=12, value_width=24, decoder_heads=2, decoder_qk_width=8, decoder_value_width=12)
EVERY_HEAD = Heads(pooler=True, next_sentence=True, classes=3, tags=4, span=True)
CLASSES = Heads(words=False, classes=3)
SERIES = Heads(words=False, channels=3)
QUANTILES = Heads(words=False, channels=3, quantiles=2, covariates=2)
STATIC = Heads(words=False, channels=3, covariates=2, statics=4)
STUDENT_T = Heads(words=False, channels=3, distribution="student_t")
UNDROPPED = dict(attention_dropout=0.0, activation_dropout=0.0)
DEFAULTS: dict[str, dict[str, Any]] = {  # settings of a small model of each family
    "transformer": SMALL,
    "gpt": SMALL | dict(maximum_length=100),
    "llama": SMALL | dict(maximum_length=100),
    "transformer_xl": SMALL | dict(maximum_length=4, memory=3),
    "t5": SMALL | dict(head_width=10, farthest=20),
    "bart": SMALL | dict(maximum_length=100),
    "marian": SMALL,
    "bert": SMALL | dict(maximum_length=20),
    "electra": SMALL | dict(maximum_length=20, generator_width=8),
    "encoder": SMALL,
    "elmo": dict(width=24, layers=2, dropout=0.0),
    "han": dict(width=24, dropout=0.0),
    "hran": dict(width=24, dropout=0.0),
    "recurrent": dict(width=24, dropout=0.0),
    "captioner": dict(width=24, layers=1, dropout=0.0, image_size=12, patch=4),
    "perceiver": dict(width=24, latents=5, layers=2, heads=3, image_size=8, bands=3, input_width=12),
    "vqa": SMALL | dict(image_size=8, patch=4),
    "image_transformer": SMALL | dict(image_size=10, pixels="grey", levels=31),
    "convnet": dict(width=16, stages=2, image_size=12),
    "vit": SMALL | dict(image_size=12, patch=4),
    "deit": SMALL | dict(image_size=12, patch=4),
    "vit_mae": SMALL | dict(image_size=12, patch=4, decoder_width=16, decoder_layers=1, decoder_heads=2, decoder_feedforward=24),
    "dlinear": dict(lookback=12, horizon=5),
    "patchtst": SMALL | dict(lookback=24, horizon=5, patch=6, stride=4, activation_dropout=0.0),
    "itransformer": SMALL | dict(lookback=12, horizon=5),
    "forecaster": SMALL | dict(lookback=12, horizon=5),
    "time_series_transformer": SMALL | dict(lookback=12, horizon=5, lags=(1, 3), samples=0, **UNDROPPED),
    "word2vec": dict(width=24),
}


def variant(family: str, parts: str = "", backwards: bool = False, outputs: Heads | None = None, **choices: Any) -> Variant:
    config = FAMILIES[family].config(**(DEFAULTS[family] | choices))
    sizes = Sizes(vocabulary=31) if outputs is None else Sizes(vocabulary=31, heads=outputs)
    return Variant(f"{family}, {parts}" if parts else family, config, sizes, backwards)


# Compiled, forwards and backwards: one of each shape of stack and of each mixer. Every position is, in tests/model/position.
VARIANTS = [
    variant("transformer", backwards=True),
    variant("transformer", "pre-norm, gelu", norm_placement="pre", activation="gelu"),
    variant("transformer", "learned positions", position="learned", maximum_length=80),
    variant("transformer", "concatenated positions", join="concat", position_width=8, tie="none"),
    variant("transformer", "window", visibility="window(2)", tie="output"),
    variant("gpt", backwards=True),
    variant("gpt", "post-norm, sinusoidal, window", norm_placement="post", position="sinusoidal", visibility="window(3)"),
    variant("llama"),
    variant("llama", "as Mistral", heads=4, kv_heads=2, visibility="window(3)"),
    variant("llama", "as Qwen2", heads=4, kv_heads=2, qkv_bias=True, tie="output"),
    variant("llama", "as Qwen3", backwards=True, heads=4, kv_heads=2, qk_norm=True, head_width=8),
    variant("llama", "as Llama 3.1", rotary_scaling="llama3", rotary_factor=8.0, rotary_context=16, rotary_base=100.0),
    variant("llama", "memory", maximum_length=4, memory=5, heads=4, kv_heads=2, qk_norm=True, head_width=8),
    variant("transformer_xl", backwards=True),
    variant("transformer_xl", "pre-norm, zeros", norm_placement="pre", final_norm=True, memory_start="zeros", untie=False),
    variant("transformer_xl", "clusters, same length", cutoffs=(8, 16), divisor=2, same_length=True, clamp=2, layers=1),
    variant("t5", backwards=True),
    variant("t5", "version 1.1", feedforward_kind="gated", activation="gelu_tanh", tie="inputs", scaled_head=False),
    variant("bart", backwards=True),
    variant("bart", "as mBART", norm_placement="pre", scaled_embeddings=True),
    variant("marian"),
    variant("bert", backwards=True),
    variant("bert", "pre-norm, window", norm_placement="pre", visibility="window(3)"),
    variant("bert", "every head, as RoBERTa", segments=1, first_position=2, outputs=EVERY_HEAD),
    variant("bert", "as DistilBERT", segments=0),
    variant("bert", "narrow words", embedding_width=10),
    variant("electra", backwards=True, embedding_width=10),
    variant("electra", "embeddings apart", tie_embeddings=False),
    variant("encoder", backwards=True),
    variant("encoder", "pairs apart, mean", pairs="apart", pooling="mean", outputs=Heads(pooler=True)),
    variant("elmo"),
    variant("elmo", "tags and a pooled vector", outputs=Heads(words=False, tags=4, pooler=True)),
    variant("transformer", "favor", backwards=True, mixer="favor", features=16, layers=1),
    variant("transformer", "conv", mixer="conv", kernel_width=3, layers=1),
    variant("gpt", "favor", backwards=True, mixer="favor", features=16),
    variant("gpt", "linear-relu", mixer="linear-relu", layers=1),
    variant("gpt", "conv", backwards=True, mixer="conv", kernel_width=3, dilation=2),
    variant("bert", "favor", mixer="favor", features=16, layers=1),
    variant("bert", "conv", mixer="conv", kernel_width=3),
    variant("transformer", "additive", backwards=True, mixer="additive", layers=1),
    variant("transformer", "as T5", position="relative", norm="rms", norm_placement="pre", bias=False, feedforward_kind="gated"),
    variant("transformer", "rotary, grouped keys", position="rotary", heads=4, kv_heads=2, layers=1),
    variant("transformer", "transformer-xl", position="transformer-xl", layers=1),
    variant(
        "gpt",
        "as LLaMA",
        position="rotary",
        norm="rms",
        feedforward_kind="gated",
        activation="silu",
        bias=False,
        heads=4,
        kv_heads=2,
    ),
    variant("gpt", "alibi, window", position="alibi", visibility="window(3)"),
    variant("gpt", "transformer-xl", position="transformer-xl", layers=1),
    variant("bert", "relative", position="relative", layers=1),
    variant("electra", "rotary", position="rotary", layers=1),
    variant("encoder", "alibi", position="alibi", layers=1),
    variant("han"),
    variant("han", "transformer", encoder="transformer", layers=2),
    variant("hran", "lstm", encoder="lstm", layers=2, tie="none"),
    variant("recurrent", "lstm", attention="none", layers=2),
    variant("recurrent", "gru, one way, no attention", cell="gru", attention="none", bidirectional=False, tie="none"),
    variant("recurrent", "bahdanau, gru", cell="gru", attention="bahdanau"),
    variant("recurrent", "luong, window, additive", mixer="additive", visibility="window(3)", cell="gru", tie="output"),
    variant("recurrent", "luong, input feeding, dot", mixer="dot", visibility="window(2)", input_feeding=True, layers=2),
    variant("captioner", "cnn and lstm", mixer="additive"),
    variant(
        "captioner",
        "patches",
        backwards=True,
        encoder="patches",
        decoder="transformer",
        heads=3,
        feedforward=40,
        norm_placement="pre",
    ),
    variant("perceiver", "Fourier features", outputs=Heads(words=False, classes=5)),
    variant("perceiver", "learned", positions="learned", bands=64, cross_heads=2, outputs=Heads(words=False, classes=5)),
    variant("perceiver", "stem, four blocks", stem=True, blocks=4, readings=3, layers=1, shared="after_first"),
    variant("perceiver", "text", reads="text", image_size=32, positions="learned", bands=64, maximum_length=20, **ASKED),
    variant("perceiver", "text, pooled", reads="text", image_size=32, maximum_length=20, outputs=Heads(pooler=True, classes=3)),
    variant("perceiver", "series", reads="series", image_size=32, numbers=3, maximum_length=20, horizon=4, query_residual=False),
    variant("perceiver", "both", reads="both", image_size=8, maximum_length=20, outputs=Heads(words=False, classes=5)),
    variant("vqa", outputs=Heads(words=False, classes=5)),
    variant("vqa", "patches", encoder="patches", outputs=Heads(words=False, classes=9)),
    variant("image_transformer", backwards=True),
    variant(
        "image_transformer",
        "learned, local 1-D, logistic",
        position="learned",
        output="logistic",
        visibility="image-local-1d(8, 8)",
    ),
    variant(
        "image_transformer",
        "coupled, local 2-D",
        backwards=True,
        pixels="rgb",
        output="logistic",
        coupled=True,
        mixtures=3,
        visibility="image-local-2d(10, 2, 5, 2, 2)",
    ),
    variant(
        "image_transformer", "as ImageGPT", grid=False, position="learned", norm="rms", activation="quick_gelu", pixels="palette"
    ),
    variant("image_transformer", "linear attention, a small image first", mixer="linear-relu", small=2, classes=3, layers=1),
    variant(
        "image_transformer", "local 1-D, a small image first", position="learned", small=5, visibility="image-local-1d(5, 5)"
    ),
    variant("convnet", outputs=CLASSES),
    variant("convnet", "grey, deeper", outputs=CLASSES, layers=2, colours=1, activation="relu"),
    variant("vit", backwards=True, outputs=CLASSES),
    variant("vit", "sequence pooling, sinusoidal", pooling="sequence", class_token=False, position="sinusoidal", outputs=CLASSES),
    variant("vit", "mean pooling, rotary", heads=2, pooling="mean", position="rotary", outputs=CLASSES),
    variant(
        "vit",
        "convolutions, grey, no positions",
        tokens="convolutions",
        patch=16,
        token_layers=2,
        colours=1,
        position="none",
        outputs=CLASSES,
    ),
    variant("vit", "favor", mixer="favor", features=16, outputs=CLASSES),
    variant("vit", "window", visibility="window(3) | global(1)", outputs=CLASSES),
    variant("deit", outputs=CLASSES),
    variant("vit_mae", backwards=True),
    variant("vit_mae", "rotary, no class token", position="rotary", heads=2, class_token=False, pooling="mean"),
    variant("dlinear", outputs=SERIES),
    variant("dlinear", "nlinear, a matrix a channel", kind="nlinear", individual=True, outputs=QUANTILES),
    variant("dlinear", "student_t", outputs=STUDENT_T),
    variant("patchtst", backwards=True, outputs=SERIES),
    variant("patchtst", "student_t, affine", affine=True, outputs=STUDENT_T),
    variant(
        "patchtst",
        "as in transformers, affine, quantiles",
        norm_placement="pre",
        residual_scores=False,
        padded=False,
        affine=True,
        outputs=QUANTILES,
    ),
    variant(
        "patchtst", "layer norms, rotary", heads=2, batch_norm=False, residual_scores=False, position="rotary", outputs=SERIES
    ),
    variant("itransformer", backwards=True, outputs=SERIES),
    variant("itransformer", "covariates, quantiles", outputs=QUANTILES),
    variant("itransformer", "student_t", outputs=STUDENT_T),
    variant("itransformer", "static", outputs=STATIC),
    variant("forecaster", outputs=SERIES),
    variant("forecaster", "student_t", outputs=STUDENT_T),
    variant("forecaster", "static", outputs=STATIC),
    variant("forecaster", "covariates, quantiles, learned", position="learned", outputs=QUANTILES),
    variant("time_series_transformer", outputs=SERIES),
    variant(
        "time_series_transformer",
        "covariates, student_t, pre-norm",
        norm_placement="pre",
        decoder_layers=1,
        outputs=Heads(words=False, channels=3, distribution="student_t", covariates=2, statics=2),
    ),
    variant("forecaster", "as Informer", backwards=True, mixer="probsparse", sampling_factor=1, outputs=QUANTILES),
    variant("forecaster", "probsparse, causal", mixer="probsparse", sampling_factor=1, visibility="causal", outputs=SERIES),
    variant("bert", "probsparse, rotary", mixer="probsparse", sampling_factor=1, position="rotary", layers=1),
    variant("encoder", "probsparse, grouped keys", mixer="probsparse", sampling_factor=1, heads=4, kv_heads=2, layers=1),
    variant("vit", "probsparse", mixer="probsparse", sampling_factor=1, outputs=CLASSES),
    variant("itransformer", "probsparse", mixer="probsparse", sampling_factor=1, outputs=SERIES),
    variant("word2vec"),
]
SPARSE = [variant(family, "bigbird", visibility="bigbird(2, 3, 2, 1)", layers=1) for family in ("transformer", "gpt", "bert")]
VARIANTS += SPARSE
CHECKS = {name: check for name, check in inspect.getmembers(harness, inspect.isfunction) if name.startswith("check_")}


def test_every_family_is_in_the_harness() -> None:
    assert {variant.config.family for variant in VARIANTS} == set(FAMILIES)


@pytest.mark.parametrize("check", [pytest.param(name, marks=[pytest.mark.slow] * ("compiles" in name)) for name in CHECKS])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_family(variant, check, tmp_path):
    if check in harness.NEEDS and not variant.family.has_any(*harness.NEEDS[check]):
        pytest.skip(f"has none of: {', '.join(harness.NEEDS[check])}")
    if check == "check_compiles_without_graph_breaks" and not variant.backwards:
        pytest.skip("a variant of the same parts is compiled, or none")
    CHECKS[check](variant, *([tmp_path] if "saved" in check else []))


@pytest.fixture
def by_blocks(monkeypatch):
    """However short and dense: the kernels for long texts, on texts that a test has time for."""
    monkeypatch.setitem(dispatch.SHORTEST, "cpu", 1)
    monkeypatch.setitem(dispatch.PAIR, "cpu", {2: 0.5})


OF_SEEING = ("gradients_reach_every_parameter", "future_tokens_change_nothing", "rows_do_not_depend_on_each_other")


@pytest.mark.parametrize("check", [*OF_SEEING, "cached_decoding_is_the_full_forward"])
@pytest.mark.parametrize("variant", SPARSE, ids=lambda v: v.name)
def test_family_by_blocks(variant, check, tmp_path, by_blocks):
    """What depends on visibility. Compiled stacks over blocks are in tests/model/sparse/test_cpu.py."""
    test_family(variant, f"check_{check}", tmp_path)
