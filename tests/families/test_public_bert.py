"""BERT, RoBERTa, CamemBERT, DistilBERT and ELECTRA of transformers: every class's answers are ours, whoever wrote the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.interop.huggingface import read_public
from regard.interop.huggingface.config import understand
from regard.interop.huggingface.registry import layout_of
from tests.families.bert_folder import (
    CONFIGS,
    EVERY,
    KINDS,
    LABELS,
    SMALL,
    assert_same,
    export,
    model_of,
    opened,
    saved,
    theirs,
)
from tests.families.public_folder import VOCABULARY, change_config, change_tensors, shaken

few = settings(max_examples=12)
every = pytest.mark.parametrize(("kind", "name"), EVERY)
SIZED: dict[str, Any] = dict(width=24, heads=3, layers=2, feedforward=40, maximum_length=13, dropout=0.0)
CHOICES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": dict(first_position=1, segments=1),
    "distilbert": dict(segments=0, pooler="relu"),
    "electra": dict(embedding_width=10, pooler="gelu"),
}


@every
def test_every_class_opens_with_its_answers(kind: str, name: str) -> None:
    peer = theirs(kind, name)
    with saved(peer) as folder:
        public = read_public(folder)
    assert public.family == "bert"
    assert public.labels == (LABELS if public.heads.classes or public.heads.tags else ())
    assert not public.notes
    assert_same(model_of(public), public.heads, peer)


@few
@given(
    st.sampled_from(list(KINDS)),
    st.sampled_from([(8, 1), (8, 4), (24, 3)]),
    st.integers(1, 3),
    st.integers(1, 50),
    st.sampled_from([1e-12, 1e-5, 1e-3]),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_any_size_opens_with_its_answers(
    kind: str, shape: tuple[int, int], layers: int, inner: int, epsilon: float, segments: int, padding: int
) -> None:
    (width, heads), wide = shape, dict(max_position_embeddings=20, pad_token_id=padding)
    if kind == "distilbert":
        keys = dict(dim=width, n_heads=heads, n_layers=layers, hidden_dim=inner)
    else:
        keys = dict(hidden_size=width, num_attention_heads=heads, num_hidden_layers=layers, intermediate_size=inner)
        keys |= dict(layer_norm_eps=epsilon, type_vocab_size=max(2, segments))  # type: ignore[dict-item]
    name = next(name for name in KINDS[kind].architectures if name.endswith("MaskedLM"))
    peer = theirs(kind, name, **keys, **wide)
    assert_same(opened(peer), Heads(), peer)


@pytest.mark.parametrize("activation", ["gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "relu"])
def test_other_activations(activation: str) -> None:
    for kind, name, key in [("bert", "BertForMaskedLM", "hidden_act"), ("distilbert", "DistilBertForMaskedLM", "activation")]:
        peer = theirs(kind, name, **{key: activation})
        assert_same(opened(peer), Heads(), peer)


def test_electra_with_words_as_wide_as_its_body() -> None:
    peer = theirs("electra", "ElectraForMaskedLM", embedding_size=24)
    model = opened(peer)
    assert (model.config.embedding_width, model.embed.widen) == (0, None)
    assert_same(model, Heads(), peer)


HEADS = {
    "bert": [Heads(words=False, pooler=True), Heads(), Heads(next_sentence=True), Heads(words=False, next_sentence=True)],
    "roberta": [Heads(words=False, pooler=True), Heads()],
    "distilbert": [Heads(words=False), Heads()],
    "electra": [Heads(words=False, replaced=True), Heads()],
}
ASKED = [Heads(words=False, classes=3), Heads(words=False, tags=3), Heads(words=False, span=True)]
OURS = [(kind, heads) for kind in HEADS for heads in (*HEADS[kind], *ASKED)]


def small(kind: str, heads: Heads) -> BERT:
    return shaken(BERT(BERTConfig(**SIZED, **CHOICES[kind]), VOCABULARY, heads=heads), 0.3)


@pytest.mark.parametrize(("kind", "heads"), OURS)
def test_what_is_exported_opens_there_and_here_as_it_was(kind: str, heads: Heads, tmp_path: Path) -> None:
    model, labels = small(kind, heads), LABELS if heads.classes or heads.tags else ()
    folder = export(tmp_path / "out", model, labels=labels)
    (name,) = json.loads((folder / "config.json").read_text())["architectures"]
    peer, told = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert peer.dtype == torch.float32
    if labels:
        assert tuple(peer.config.id2label.values()) == labels
        assert peer.config.label2id == {label: n for n, label in enumerate(labels)}
    assert_same(model, heads, peer.eval(), VOCABULARY)
    public = read_public(folder)
    assert (public.config, public.vocabulary, public.labels, public.notes) == (model.config, VOCABULARY, labels, ())
    assert public.weights.keys() == model.state_dict().keys()
    assert all(torch.equal(public.weights[name], tensor) for name, tensor in model.state_dict().items())
    assert not (folder / "generation_config.json").exists()


@every
def test_in_and_out_again_is_the_same(kind: str, name: str, tmp_path: Path) -> None:
    peer = theirs(kind, name, vocab_size=VOCABULARY)
    with saved(peer) as folder:
        public = read_public(folder)
    again = getattr(transformers, name).from_pretrained(
        export(tmp_path / "ours", model_of(public), labels=public.labels, model_type=kind)
    )
    assert again.config.model_type == kind
    assert again.config.architectures == [name]
    assert again.state_dict().keys() == peer.state_dict().keys()
    assert all(torch.equal(again.state_dict()[key], tensor) for key, tensor in peer.state_dict().items())


def test_a_model_is_written_as_what_computes_the_same() -> None:
    for kind, choices in CHOICES.items():
        assert layout_of(BERTConfig(**SIZED, **choices)).model_type == kind


def test_the_tokenizer_gives_segments_only_where_they_are_read(tmp_path: Path) -> None:
    for kind, expected in [("bert", True), ("roberta", False), ("distilbert", False)]:
        folder = export(tmp_path / kind, small(kind, Heads()))
        given = transformers.AutoTokenizer.from_pretrained(folder)("the animal")
        assert ("token_type_ids" in given) == expected


def test_weights_as_they_were_converted_from_tensorflow(tmp_path: Path) -> None:
    """As bert-base-uncased is stored: norms with gamma and beta, the matrix for words and its bias twice, every head."""
    peer = theirs("bert", "BertForPreTraining")
    peer.save_pretrained(tmp_path)

    def age(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if "LayerNorm" in name]:
            tensors[name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = (
                tensors.pop(name)
            )
        tensors["bert.embeddings.position_ids"] = torch.arange(13)[None]
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()

    change_tensors(tmp_path, age)
    change_config(tmp_path, architectures=["BertForMaskedLM"])
    public = read_public(tmp_path)
    assert public.heads == Heads(words=True, pooler=True, next_sentence=True)
    assert_same(model_of(public), public.heads, peer)
    change_tensors(tmp_path, lambda tensors: tensors.pop("cls.predictions.bias"))
    assert_same(model_of(read_public(tmp_path)), public.heads, peer)


def test_a_pooler_that_nobody_asks_is_left_out_and_said(tmp_path: Path) -> None:
    """As in the first RoBERTas that were fine-tuned."""
    peer = theirs("roberta", "RobertaForSequenceClassification")
    peer.save_pretrained(tmp_path)
    body = {"roberta.pooler.dense.weight": torch.ones(24, 24), "roberta.pooler.dense.bias": torch.ones(24)}
    change_tensors(tmp_path, lambda tensors: tensors.update(body))
    public = read_public(tmp_path)
    (note,) = public.notes
    assert "pooler.dense" in note
    assert_same(model_of(public), public.heads, peer)


def test_without_an_architecture_tensors_tell(tmp_path: Path) -> None:
    for n, (kind, name) in enumerate([("bert", "BertForQuestionAnswering"), ("electra", "ElectraForTokenClassification")]):
        peer = theirs(kind, name)
        peer.save_pretrained(tmp_path / str(n))
        for said in (None, []):
            change_config(tmp_path / str(n), architectures=said)
            public = read_public(tmp_path / str(n))
            assert_same(model_of(public), public.heads, peer)


PUBLISHED = """architectures attention_probs_dropout_prob bos_token_id classifier_dropout directionality eos_token_id
finetuning_task gradient_checkpointing hidden_act hidden_dropout_prob hidden_size id2label initializer_range intermediate_size
label2id layer_norm_eps max_position_embeddings model_type num_attention_heads num_hidden_layers output_past pad_token_id
pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type position_embedding_type
problem_type torch_dtype transformers_version type_vocab_size use_cache vocab_size _name_or_path _num_labels"""
OF_DISTILBERT = "activation attention_dropout dim dropout hidden_dim n_heads n_layers qa_dropout seq_classif_dropout tie_weights_"


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_that_transformers_writes_is_known(kind: str, tmp_path: Path) -> None:
    known = KINDS[kind].keys
    assert not {*(OF_DISTILBERT if kind == "distilbert" else PUBLISHED).split()} - known.keys()
    assert not CONFIGS[kind]().to_dict().keys() - known.keys()
    config, vocabulary, notes, _ = understand({"model_type": kind}, KINDS[kind], "config.json")
    standard = CONFIGS[kind]()
    assert (vocabulary, notes) == (standard.vocab_size, ())
    for ours, key in [("width", "hidden_size"), ("layers", "num_hidden_layers"), ("heads", "num_attention_heads")]:
        assert getattr(config, ours) == getattr(standard, key)
    assert config.first_position + config.maximum_length == standard.max_position_embeddings
    full = {**standard.to_dict(), **SMALL[kind]}
    again = understand(json.loads(json.dumps(full)), KINDS[kind], "config.json")
    assert again == understand({"model_type": kind, **SMALL[kind]}, KINDS[kind], "config.json")
