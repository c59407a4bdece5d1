"""Transformer-XL as transformers 4 had it until 4.36, `transfo-xl`: read, not written, for no living library opens it.

It begins with a memory of zeros that is attended to. `tie_projs` says of each cluster of words whether its projection is that of
the embedding; as in the authors' scripts the first has its own, and the others are tied or not together.
"""

from __future__ import annotations

from regard.core.errors import UserError
from regard.families.transformer_xl import TransformerXLConfig
from regard.interop.huggingface.mapping import (
    COMMON,
    Blocks,
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
    matrix,
    norm,
    sizes,
)

MOST_CLUSTERS = 8  # of words

KEYS: dict[str, Meaning] = {
    **COMMON,
    "vocab_size": Number("vocabulary", 267_735),
    "cutoffs": Raw("cutoffs", [20_000, 40_000, 200_000]),
    "tie_projs": Raw("tie_projs"),
    "d_model": Number("width", 1024),
    "d_embed": Number("embedding_width", 1024),
    "n_head": Number("heads", 16),
    "d_head": Number("head_width", 64),
    "d_inner": Number("feedforward", 4096),
    "div_val": Number("divisor", 4),
    "pre_lnorm": Flag("pre_norm", False),
    "n_layer": Number("layers", 18),
    "mem_len": Number("memory", 1600),
    "clamp_len": Raw("clamp", 1000),
    "same_length": Flag("same_length", True),
    "untie_r": Flag("untie", True),
    "dropout": Number("dropout", 0.1, whole=False),
    "dropatt": Number("attention_dropout", 0.0, whole=False),
    "layer_norm_epsilon": Number("norm_epsilon", 1e-5, whole=False),
    "attn_type": Only((0,)),
    "adaptive": Only((True,)),
    **ignored("proj_share_all_but_first sample_softmax init init_range init_std proj_init_std tgt_len ext_len trim_offset"),
}

ATTENTION = (
    *norm("self.norm", "dec_attn.layer_norm"),
    *matrix("self.layer.project", "dec_attn.qkv_net", "3I", "D"),
    *matrix("self.layer.out", "dec_attn.o_net", "D", "I"),
    *norm("ffn.norm", "pos_ff.layer_norm"),
    *linear("ffn.layer.expand", "pos_ff.CoreNet.0", "F", "D"),
    *linear("ffn.layer.contract", "pos_ff.CoreNet.3", "D", "F"),
)
DISTANCES = (
    Entry("content_HK", ("dec_attn.r_w_bias",), ("heads", "head K")),
    Entry("position_HK", ("dec_attn.r_r_bias",), ("heads", "head K")),
    *matrix("project", "dec_attn.r_net", "I", "D"),
)


def _cluster(i: int) -> tuple[Entry, ...]:
    """Map the tables and projections of one cluster of words, in embedding and output."""
    words, narrow = f"embed.tokens.tables.{i}.weight", f"embed.tokens.projections.{i}.weight"
    return (
        Entry(words, (f"word_emb.emb_layers.{i}.weight",), (f"V{i}", f"E{i}")),
        Entry(narrow, (f"word_emb.emb_projs.{i}",), ("D", f"projected E{i}")),
        Entry(f"head.tables.{i}.weight", (f"crit.out_layers.{i}.weight",), (f"V{i}", f"E{i}"), tied=words, inside=False),
        Entry(f"head.tables.{i}.bias", (f"crit.out_layers.{i}.bias",), (f"V{i}",), inside=False),
        Entry(f"head.projections.{i}.weight", (f"crit.out_projs.{i}",), ("D", f"projected E{i}"), inside=False),
    )


def _ours(settings: Settings) -> Settings:
    rest = {key: value for key, value in settings.items() if key not in ("tie_projs", "pre_norm", "clamp", "cutoffs")}
    cutoffs, clamp, narrow = settings.get("cutoffs") or [], settings.get("clamp"), settings["divisor"] > 1
    if not (isinstance(cutoffs, list) and all(type(cut) is int for cut in cutoffs)):
        raise UserError(f"cutoffs={str(cutoffs)[:60]!r}; whole numbers are expected.")
    if type(clamp) is not int:
        raise UserError(f"clamp_len={str(clamp)[:60]!r}; a whole number is expected, -1 for none.")
    given = settings.get("tie_projs")
    ties = given if isinstance(given, list) else [False, *[True] * len(cutoffs)]
    if narrow and (ties[0] or len(ties) != len(cutoffs) + 1 or len({*ties[1:]}) > 1):
        raise UserError(f"tie_projs={given}; this version of Regard ties the projections of all clusters but the first, or none.")
    if len(cutoffs) >= MOST_CLUSTERS:
        raise UserError(f"cutoffs has {len(cutoffs)} numbers; up to {MOST_CLUSTERS - 1} are read.")
    return {
        **rest,
        "cutoffs": tuple(cutoffs),
        "divisor": settings["divisor"] if cutoffs else 1,
        "clamp": max(0, clamp),
        "tie_projections": all(ties[1:]) or not narrow,
        "norm_placement": "pre" if settings["pre_norm"] else "post",
        "maximum_length": max(1, settings["memory"]),
    }


def _sizes(config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
    """Return V0, V1, ... of the clusters of words and E0, E1, ... of their vectors; one table without clusters is V."""
    assert isinstance(config, TransformerXLConfig)
    ends = [*config.cutoffs, vocabulary] if config.divisor > 1 else [vocabulary]
    own = {f"V{i}": end - begin for i, (begin, end) in enumerate(zip([0, *ends], ends))} if config.adaptive else {}
    size = dict.fromkeys((f"{letter}{i}" for letter in "VE" for i in range(MOST_CLUSTERS)), 0) | own
    size |= {f"E{i}": config.inner // config.divisor**i for i in range(len(own))}
    projected = config.divisor > 1 or config.inner != config.width
    size |= {f"projected E{i}": size[f"E{i}"] if projected else 0 for i in range(MOST_CLUSTERS)}
    size |= sizes(config, vocabulary, labels, target)
    return size | {"plain V": 0 if config.adaptive else vocabulary, "clusters": len(config.cutoffs), "head K": config.key_width}


TRANSFO_XL = Layout(
    model_type="transfo-xl",
    architectures={"TransfoXLLMHeadModel": ()},
    config=TransformerXLConfig,
    sized=_sizes,
    keys=KEYS,
    implied=lambda settings: {"memory_start": "zeros", "mixer": "softmax", "visibility": "full"},
    prefix="transformer.",
    whole=(
        *matrix("embed.tokens", "word_emb.emb_layers.0", "plain V", "D"),
        Entry("head.project.weight", ("crit.out_layers.0.weight",), ("plain V", "D"), tied="embed.tokens.weight", inside=False),
        Entry("head.project.bias", ("crit.out_layers.0.bias",), ("plain V",), inside=False),
        *(entry for i in range(MOST_CLUSTERS) for entry in _cluster(i)),
        Entry("head.clusters.weight", ("crit.cluster_weight",), ("clusters", "E0"), inside=False),
        Entry("head.clusters.bias", ("crit.cluster_bias",), ("clusters",), inside=False),
    ),
    blocks=(Blocks("decoder.blocks", "layers", ATTENTION), Blocks("decoder.position.layers", "layers", DISTANCES)),
    buffers=("pos_emb.inv_freq", "transformer.r_w_bias", "transformer.r_r_bias"),  # the latter are in every layer once more
    ours=_ours,
)
