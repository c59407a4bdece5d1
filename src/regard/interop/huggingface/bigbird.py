"""BigBird as it is public, `big_bird` of transformers: a BERT that looks at blocks, or at everything (`original_full`).

Where it answers it looks without chance, which is our visibility `bigbird_fixed`; while transformers trains it the same keys mean
blocks drawn at random, which is `bigbird`. Its classifier has a layer with the body's activation, not the pooler's tanh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from regard.families.bert import BERTConfig
from regard.interop.huggingface.bert import ACTIVATIONS, BERT, KEYS, TAGS, architectures, classes, implied
from regard.interop.huggingface.mapping import Choice, Config, Number, Only, Settings, linear
from regard.model.visibility import Full
from regard.model.visibility.bigbird import BigBirdFixed
from regard.model.visibility.parse import parse_visibility

THEIRS = ("attention", "block", "random")  # that we have as one, the visibility
SPARSE, FULL = "block_sparse", "original_full"


def is_bigbird(config: Config) -> bool:
    return isinstance(parse_visibility(config.visibility), BigBirdFixed)


def _seen(settings: Settings) -> Settings:
    rest = {key: value for key, value in settings.items() if key not in THEIRS}
    sparse = settings["attention"] == SPARSE
    return {**rest, "visibility": str(BigBirdFixed(settings["block"], settings["random"])) if sparse else "full"}


def _blocks(settings: Settings) -> Settings:
    """A visibility that no key says is left as it is, and so refused."""
    pattern = parse_visibility(settings["visibility"])
    if isinstance(pattern, BigBirdFixed):
        keys = dict(zip(THEIRS, (SPARSE, pattern.size, pattern.random)))
    else:
        keys = dict(zip(THEIRS, (FULL, 64, 3)))
    said = isinstance(pattern, BigBirdFixed | Full)
    return {key: value for key, value in settings.items() if not (said and key == "visibility")} | keys


def _pooled(config: Config, heads: Sequence[str], tensors: Mapping[str, Tensor]) -> Config:
    return replace(config, pooler=config.activation) if isinstance(config, BERTConfig) and "classes" in heads else config


def _implied(settings: Settings) -> Settings:
    own = settings.get("pooler", "tanh")
    return implied(pooler=own if own == settings["activation"] else "tanh")


BIGBIRD = replace(
    BERT,
    model_type="big_bird",
    architectures={
        name: heads
        for name, heads in architectures("BigBird", PreTraining=("words", "next_sentence")).items()
        if not name.endswith("QuestionAnswering")  # which has more layers of its own
    },
    keys={
        **KEYS,
        "vocab_size": Number("vocabulary", 50_358),
        "hidden_act": Choice(
            "activation", dict(sorted(ACTIVATIONS.items(), key=lambda names: names[0] != "gelu_new")), "gelu_new"
        ),
        "max_position_embeddings": Number("maximum_length", 4096),
        "attention_type": Choice("attention", {SPARSE: SPARSE, FULL: FULL}, SPARSE),
        "block_size": Number("block", 64),
        "num_random_blocks": Number("random", 3, least=0),
        "use_bias": Only((True,)),
        "rescale_embeddings": Only((False,)),
    },
    implied=_implied,
    heads={
        "words": BERT.heads["words"],
        "next_sentence": BERT.heads["next_sentence"],
        "classes": classes("classifier.dense", "classifier.out_proj"),
        "tags": TAGS,
        "pooler": linear("pooler.project", "pooler", "D", "D"),
    },
    ours=_seen,
    theirs=_blocks,
    fitted=_pooled,
)
