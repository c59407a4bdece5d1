"""BERT as it is public, `bert` of transformers, in tables from which its relatives (`relatives.py`) take what they share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.families.bert import BERTConfig
from regard.interop.huggingface.mapping import (
    COMMON,
    Blocks,
    Choice,
    Entry,
    Layout,
    Meaning,
    Number,
    Only,
    Settings,
    ignored,
    linear,
    norm,
    table,
)

ACTIVATIONS = {"gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}

EVERY: dict[str, Meaning] = {
    **COMMON,
    "position_embedding_type": Only(("absolute",)),
    "is_decoder": Only((False,)),
    **ignored("classifier_dropout mask_token_id cls_token_id unk_token_id"),
}
KEYS: dict[str, Meaning] = {
    **EVERY,
    "vocab_size": Number("vocabulary", 30_522),
    "hidden_size": Number("width", 768),
    "num_hidden_layers": Number("layers", 12),
    "num_attention_heads": Number("heads", 12),
    "intermediate_size": Number("feedforward", 3072),
    "hidden_act": Choice("activation", ACTIVATIONS, "gelu"),
    "hidden_dropout_prob": Number("dropout", 0.1, whole=False),
    "attention_probs_dropout_prob": Number("attention_dropout", 0.1, whole=False),
    "max_position_embeddings": Number("maximum_length", 512),
    "type_vocab_size": Number("segments", 2),
    "layer_norm_eps": Number("norm_epsilon", 1e-12, whole=False),
    **ignored("directionality pooler_type pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head"),
}

EMBEDDING = (
    *table("embed.tokens", "embeddings.word_embeddings", "V", columns="E"),
    *table("embed.positions.scheme.table", "embeddings.position_embeddings", "P", columns="E"),
    *table("embed.segments", "embeddings.token_type_embeddings", "S", columns="E"),
    *norm("embed.norm", "embeddings.LayerNorm", "E"),
    *linear("embed.widen", "embeddings_project", "wider D", "E"),
)
BLOCK = (
    *linear("self.layer.project", "attention.self.query,attention.self.key,attention.self.value", "3D", "D"),
    *linear("self.layer.out", "attention.output.dense", "D", "D"),
    *norm("self.norm", "attention.output.LayerNorm"),
    *linear("ffn.layer.expand", "intermediate.dense", "F", "D"),
    *linear("ffn.layer.contract", "output.dense", "D", "F"),
    *norm("ffn.norm", "output.LayerNorm"),
)
BLOCKS = (Blocks("encoder.blocks", "encoder.layer", BLOCK),)
BUFFERS = ("position_ids", "token_type_ids")


def words(dense: str, normed: str, scored: str, bias: str = "") -> tuple[Entry, ...]:
    """The head for masked words; a bias that has a name of its own may lie beside its matrix too."""
    bias_entry = Entry("head.project.bias", (bias or f"{scored}.bias",), ("V",), inside=False)
    return (
        *linear("head.before.0", dense, "E", "D", inside=False),
        *norm("head.before.2", normed, "E", inside=False),
        replace(bias_entry, again=(f"{scored}.bias",)) if bias else bias_entry,
        *table("head.project", scored, "V", tied="embed.tokens.weight", columns="E", inside=False),
    )


def classes(dense: str, scored: str) -> tuple[Entry, ...]:
    pooler = linear("pooler.project", dense, "D", "D", inside=False) if dense else ()
    return (*pooler, *linear("classes.project", scored, "C", "D", inside=False))


POOLER = linear("pooler.project", "pooler.dense", "D", "D")
TAGS = linear("tags.project", "classifier", "C", "D", inside=False)
SPAN = linear("span.project", "qa_outputs", "2", "D", inside=False)


def architectures(name: str, **more: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return a model's own architectures, then those that all BERT variants have."""
    tasks = {"SequenceClassification": "classes", "TokenClassification": "tags", "QuestionAnswering": "span"}
    everyone = {f"{name}Model": (), f"{name}ForMaskedLM": ("words",), **{f"{name}For{task}": (h,) for task, h in tasks.items()}}
    return {f"{name}For{task}": heads for task, heads in more.items()} | everyone


def implied(**others: Any) -> Settings:
    return {"mixer": "softmax", "visibility": "full", "position": "learned", "norm_placement": "post", "pooler": "tanh", **others}


BERT = Layout(
    model_type="bert",
    architectures=architectures("Bert", PreTraining=("words", "next_sentence"), NextSentencePrediction=("next_sentence",)),
    config=BERTConfig,
    keys=KEYS,
    implied=lambda settings: implied(),
    prefix="bert.",
    whole=EMBEDDING,
    blocks=BLOCKS,
    buffers=BUFFERS,
    heads={
        "words": words(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.decoder",
            "cls.predictions.bias",
        ),
        "next_sentence": linear("next_sentence.project", "cls.seq_relationship", "2", "D", inside=False),
        "classes": classes("", "classifier"),
        "tags": TAGS,
        "span": SPAN,
        "pooler": POOLER,
    },
)
