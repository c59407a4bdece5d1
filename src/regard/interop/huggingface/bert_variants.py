"""BERT's relatives as they are public: `roberta`, `camembert`, `distilbert` and `electra` of transformers.

One body under several names. They differ in what they call its parts, in the layer between a text's first token and what the text
is asked for (our `pooler`, which is the body's in BERT and the classifier's in all others), and in how positions are numbered:
RoBERTa's begin behind the number of its padding token.
"""

from __future__ import annotations

from dataclasses import replace

from regard.families.bert import BERTConfig
from regard.interop.huggingface.bert import (
    ACTIVATIONS,
    BERT,
    BUFFERS,
    EMBEDDING,
    EVERY,
    KEYS,
    POOLER,
    SPAN,
    TAGS,
    architectures,
    classes,
    implied,
    words,
)
from regard.interop.huggingface.mapping import Blocks, Choice, Layout, Number, Settings, ignored, linear, norm

EXACT = {"gelu": "gelu", "gelu_python": "gelu"}  # where some layers have it whatever the key says


def _behind_padding(settings: Settings) -> Settings:
    """Their table has a row for every number up to the padding's, which no word has."""
    first, rest = settings["padding"] + 1, {key: value for key, value in settings.items() if key not in ("padding", "positions")}
    return {**rest, "first_position": first, "maximum_length": settings["positions"] - first}


def _with_padding(settings: Settings) -> Settings:
    rest = {key: value for key, value in settings.items() if key not in ("first_position", "maximum_length")}
    first = settings["first_position"]
    return {**rest, "padding": first - 1, "positions": settings["maximum_length"] + first}


ROBERTA = replace(
    BERT,
    model_type="roberta",
    architectures=architectures("Roberta"),
    keys={
        **KEYS,
        "vocab_size": Number("vocabulary", 50_265),
        "hidden_act": Choice("activation", EXACT, "gelu"),
        "max_position_embeddings": Number("positions", 512),
        "pad_token_id": Number("padding", 1, least=0),
    },
    prefix="roberta.",
    heads={
        "words": words("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"),
        "classes": classes("classifier.dense", "classifier.out_proj"),
        "tags": TAGS,
        "span": SPAN,
        "pooler": POOLER,
    },
    ours=_behind_padding,
    theirs=_with_padding,
)

CAMEMBERT = replace(
    ROBERTA,
    model_type="camembert",
    architectures=architectures("Camembert"),
    keys={**ROBERTA.keys, "vocab_size": Number("vocabulary", 30_522)},
)

DISTILBERT_BLOCK = (
    *linear("self.layer.project", "attention.q_lin,attention.k_lin,attention.v_lin", "3D", "D"),
    *linear("self.layer.out", "attention.out_lin", "D", "D"),
    *norm("self.norm", "sa_layer_norm"),
    *linear("ffn.layer.expand", "ffn.lin1", "F", "D"),
    *linear("ffn.layer.contract", "ffn.lin2", "D", "F"),
    *norm("ffn.norm", "output_layer_norm"),
)
DISTILBERT = Layout(
    model_type="distilbert",
    architectures=architectures("DistilBert"),
    config=BERTConfig,
    keys={
        **EVERY,
        "vocab_size": Number("vocabulary", 30_522),
        "dim": Number("width", 768),
        "n_layers": Number("layers", 6),
        "n_heads": Number("heads", 12),
        "hidden_dim": Number("feedforward", 3072),
        "activation": Choice("activation", ACTIVATIONS, "gelu"),
        "dropout": Number("dropout", 0.1, whole=False),
        "attention_dropout": Number("attention_dropout", 0.1, whole=False),
        "max_position_embeddings": Number("maximum_length", 512),
        **ignored("qa_dropout seq_classif_dropout sinusoidal_pos_embds tie_weights_"),
    },
    implied=lambda settings: implied(pooler="relu", segments=0, norm_epsilon=1e-12),
    prefix="distilbert.",
    whole=EMBEDDING,
    blocks=(Blocks("encoder.blocks", "transformer.layer", DISTILBERT_BLOCK),),
    buffers=BUFFERS,
    heads={
        "words": words("vocab_transform", "vocab_layer_norm", "vocab_projector"),
        "classes": classes("pre_classifier", "classifier"),
        "tags": TAGS,
        "span": SPAN,
    },
)


def _words_of(settings: Settings) -> Settings:
    return {**settings, "embedding_width": 0 if settings["embedding_width"] == settings["width"] else settings["embedding_width"]}


ELECTRA = replace(
    BERT,
    model_type="electra",
    architectures=architectures("Electra", PreTraining=("replaced",)),
    keys={
        **KEYS,
        "embedding_size": Number("embedding_width", 128),
        "hidden_size": Number("width", 256),
        "num_attention_heads": Number("heads", 4),
        "intermediate_size": Number("feedforward", 1024),
        "hidden_act": Choice("activation", EXACT, "gelu"),
        **ignored("summary_type summary_use_proj summary_activation summary_last_dropout generator_size"),
    },
    implied=lambda settings: implied(pooler="gelu"),
    prefix="electra.",
    heads={
        "words": words("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
        "replaced": (
            *linear("replaced.dense", "discriminator_predictions.dense", "D", "D", inside=False),
            *linear("replaced.project", "discriminator_predictions.dense_prediction", "1", "D", inside=False),
        ),
        "classes": classes("classifier.dense", "classifier.out_proj"),
        "tags": TAGS,
        "span": SPAN,
    },
    ours=_words_of,
    theirs=lambda settings: {**settings, "embedding_width": settings["embedding_width"] or settings["width"]},
)
