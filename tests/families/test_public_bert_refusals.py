"""Folders of BERTs that cannot be opened, and BERTs that cannot be written: each a sentence that names what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.interop.huggingface import read_public, write_public
from regard.interop.huggingface.heads import find_heads, read_labels
from regard.interop.huggingface.registry import LAYOUTS
from tests.families.bert_folder import KINDS, export, theirs
from tests.families.public_folder import ROLES, TOKENIZER, VOCABULARY, change_config, change_tensors

SIZED: dict[str, Any] = dict(width=24, heads=3, layers=2, feedforward=40, maximum_length=13, dropout=0.0)
REFUSED: list[tuple[str, str, Any]] = [
    ("bert", "position_embedding_type", "relative_key"),
    ("bert", "is_decoder", True),
    ("bert", "add_cross_attention", True),
    ("bert", "tie_word_embeddings", False),
    ("bert", "hidden_act", "silu"),
    ("bert", "type_vocab_size", 0),
    ("bert", "embedding_size", 12),
    ("bert", "rope_theta", 10000.0),
    ("bert", "quantization_config", {"bits": 4}),
    ("bert", "hidden_size", "24"),
    ("bert", "layer_norm_eps", None),
    ("roberta", "hidden_act", "gelu_new"),
    ("roberta", "pad_token_id", None),
    ("roberta", "pad_token_id", -1),
    ("camembert", "num_hidden_layers", 0),
    ("distilbert", "hidden_size", 24),
    ("distilbert", "type_vocab_size", 2),
    ("distilbert", "activation", "tanh"),
    ("electra", "embedding_size", True),
    ("electra", "hidden_act", "relu"),
]
HEADED = {"bert": "BertForSequenceClassification", "roberta": "RobertaForMaskedLM", "electra": "ElectraForPreTraining"}
HEADED |= {"camembert": "CamembertForMaskedLM", "distilbert": "DistilBertForTokenClassification"}


def folder_of(kind: str, folder: Path, name: str = "") -> Path:
    theirs(kind, name or HEADED[kind]).save_pretrained(folder)
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_public(folder)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(folder) in sentence
    return sentence


@pytest.mark.parametrize(("kind", "key", "value"), REFUSED)
def test_a_key_that_asks_for_something_else_is_refused_by_name_and_value(tmp_path: Path, kind: str, key: str, value: Any) -> None:
    read_public(folder_of(kind, tmp_path))
    change_config(tmp_path, **{key: value})
    assert f"{key}={json.dumps(value)}" in refused(tmp_path)


@pytest.mark.parametrize(
    ("kind", "name", "tensor", "shape", "named"),
    [
        ("bert", "BertModel", "adapter.weight", (2, 2), "the tensor adapter.weight"),
        ("bert", "BertForMaskedLM", "bert.encoder.layer.2.output.dense.bias", (24,), "encoder.layer.2.output.dense.bias"),
        ("bert", "BertForMaskedLM", "embeddings_project.weight", (24, 24), "embeddings_project.weight"),
        ("bert", "BertForMaskedLM", "cls.predictions.decoder.weight", (300, 24), "is not the embedding of words"),
        ("bert", "BertForMaskedLM", "cls.predictions.decoder.bias", (300,), "which are not the same"),
        ("bert", "BertForMaskedLM", "bert.embeddings.LayerNorm.gamma", (24,), "two tensors for one"),
        ("bert", "BertForSequenceClassification", "classifier.weight", (2, 24), "its config.json asks for (3, 24)"),
        ("bert", "BertForQuestionAnswering", "qa_outputs.weight", (3, 24), "its config.json asks for (2, 24)"),
        ("roberta", "RobertaForMaskedLM", "cls.predictions.bias", (300,), "the tensor cls.predictions.bias"),
        ("roberta", "RobertaModel", "embeddings.position_embeddings.weight", (13, 24), "asks for (15, 24)"),
        ("distilbert", "DistilBertModel", "embeddings.token_type_embeddings.weight", (2, 24), "token_type_embeddings"),
        ("distilbert", "DistilBertModel", "pooler.dense.weight", (24, 24), "the tensor pooler.dense.weight"),
        ("electra", "ElectraModel", "embeddings_project.weight", (24, 11), "asks for (24, 10)"),
        ("electra", "ElectraForPreTraining", "electra.pooler.dense.bias", (24,), "pooler.dense.bias"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, kind: str, name: str, tensor: str, shape: tuple[int, ...], named: str) -> None:
    change_tensors(folder_of(kind, tmp_path, name), lambda tensors: tensors.update({tensor: torch.full(shape, 0.5)}))
    assert named in refused(tmp_path)


@pytest.mark.parametrize(
    ("kind", "name", "missing"),
    [
        ("bert", "BertForPreTraining", "cls.seq_relationship.bias"),
        ("bert", "BertForSequenceClassification", "bert.pooler.dense.weight"),
        ("bert", "BertForMaskedLM", "cls.predictions.bias"),
        ("roberta", "RobertaForSequenceClassification", "classifier.dense.bias"),
        ("distilbert", "DistilBertForQuestionAnswering", "qa_outputs.weight"),
        ("electra", "ElectraForMaskedLM", "generator_lm_head.bias"),
        ("electra", "ElectraModel", "embeddings_project.bias"),
    ],
)
def test_tensors_that_are_missing(tmp_path: Path, kind: str, name: str, missing: str) -> None:
    change_tensors(folder_of(kind, tmp_path, name), lambda tensors: tensors.pop(missing))
    assert f"no tensor {missing.removeprefix(LAYOUTS[kind].prefix)}" in refused(tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architectures": ["BertForMultipleChoice"]}, "the architecture 'BertForMultipleChoice'"),
        ({"architectures": ["BertForTokenClasification"]}, "did you mean 'BertForTokenClassification'?"),
        ({"architectures": "BertModel"}, "classes or for tags"),
        ({"architectures": None}, "add architectures with one of: BertForSequenceClassification, BertForTokenClassification."),
        ({"architectures": ["BertModel", "BertForMaskedLM"]}, "the architecture"),
        ({"architectures": [3]}, "the architecture '3'"),
        ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "does not number its labels"),
        ({"id2label": ["a", "b", "c"]}, "does not number its labels"),
        ({"id2label": {"0": "a", "1": "b", "2": "b"}}, "twice the same"),
        ({"id2label": {"0": "a", "1": "b", "2": 7}}, "no names"),
        ({"id2label": {"0": "a", "1": "b"}}, "its config.json asks for (2, 24)"),
        ({"id2label": None, "num_labels": 4}, "its config.json asks for (4, 24)"),
        ({"max_position_embeddings": 12}, "asks for (12, 24)"),
    ],
)
def test_a_head_that_is_not_described(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    change_config(folder_of("bert", tmp_path), **change)
    assert named in refused(tmp_path)


def test_labels_without_names_are_numbered(tmp_path: Path) -> None:
    change_config(folder_of("bert", tmp_path), id2label=None, num_labels=3)
    assert read_public(tmp_path).labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_a_roberta_without_room_for_a_word(tmp_path: Path) -> None:
    change_config(folder_of("roberta", tmp_path), pad_token_id=14)
    assert "model.maximum_length=0 must be at least 1" in refused(tmp_path)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["BertModel", "BertForTokenClassification"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["0", "1", "a"]), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=150)
@given(
    st.sampled_from(list(KINDS)),
    st.dictionaries(st.sampled_from(["architectures", "id2label", "num_labels"]), anything),
    st.sets(st.sampled_from(["classifier.weight", "pooler.dense.bias", "lm_head.bias", "qa_outputs.bias", "other"])),
)
def test_any_description_of_heads_is_understood_or_refused_in_one_line(kind: str, raw: dict[str, Any], stored: set[str]) -> None:
    refusal = ""
    try:
        heads, unused = find_heads(stored, raw, LAYOUTS[kind], "config.json")
        labels = read_labels(raw, heads, "config.json")
    except UserError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert len(refusal) < 400
    if not refusal:
        assert {*heads} <= {*LAYOUTS[kind].heads}
        assert {*unused} <= stored
        assert bool(labels) == bool({"classes", "tags"} & {*heads})
        assert not {"classes", "tags"} <= {*heads} or kind not in ("bert", "distilbert")


def test_weights_of_another_kind_are_converted_with_their_heads(tmp_path: Path) -> None:
    (folder_of("bert", tmp_path) / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert "from transformers import BertForSequenceClassification as Model" in refused(tmp_path)


WRITTEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (dict(segments=0), {}, "it would have type_vocab_size=0, and 1 is the least"),
    (dict(embedding_width=10), {}, "model.embedding_width=10 cannot be written as bert"),
    (dict(norm_placement="pre"), {}, "model.norm_placement=pre cannot be written"),
    (dict(pooler="relu"), {}, "model.segments=2 cannot be written as distilbert"),
    (dict(visibility="window(4)"), {}, "model.visibility=window(4)"),
    (dict(first_position=2), {"model_type": "bert"}, "model.first_position=2 cannot be written as bert"),
    ({}, {"model_type": "roberta"}, "it would have pad_token_id=-1"),
    ({}, {"model_type": "gpt2"}, "A bert cannot be written as 'gpt2'"),
    ({}, {"labels": ("a", "b")}, "no head for classes"),
]


@pytest.mark.parametrize(("choices", "others", "named"), WRITTEN)
def test_what_has_no_key_there_is_not_written(
    tmp_path: Path, choices: dict[str, Any], others: dict[str, Any], named: str
) -> None:
    model = BERT(BERTConfig(**SIZED, **choices), VOCABULARY)
    with pytest.raises(UserError, match=re.escape(named)):
        export(tmp_path / "out", model, **others)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("heads", "labels", "named"),
    [
        (Heads(classes=3), (), "the heads words and classes cannot be written as bert"),
        (Heads(words=False, classes=3, span=True), (), "classes and span"),
        (Heads(words=False, replaced=True), (), "replaced.dense.weight has no place"),
        (Heads(words=False, classes=3), ("a", "b"), "2 labels are given, but the model tells 3 apart"),
        (Heads(words=False, tags=3), ("a", "b", "a"), "the same name"),
    ],
)
def test_heads_that_no_class_has_are_not_written(tmp_path: Path, heads: Heads, labels: tuple[str, ...], named: str) -> None:
    model = BERT(BERTConfig(**SIZED), VOCABULARY, heads=heads)
    with pytest.raises(UserError, match=re.escape(named)):
        export(tmp_path / "out", model, labels=labels)
    assert not list(tmp_path.iterdir())


def test_a_roberta_whose_tokenizer_pads_with_another_id_is_not_written(tmp_path: Path) -> None:
    def written(first: int) -> None:
        model = BERT(BERTConfig(**SIZED, first_position=first, segments=1), VOCABULARY)
        weights = model.state_dict()
        write_public(tmp_path / str(first), model.config, VOCABULARY, weights, tokenizer_json=TOKENIZER, roles=ROLES)

    written(1)
    with pytest.raises(UserError, match=r"pads with the id 0, .* model\.first_position=2 says is 1"):
        written(2)


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        (dict(segments=-1), "model.segments=-1 must be 0"),
        (dict(first_position=-1), "model.first_position=-1 must be 0"),
        (dict(embedding_width=-2), "model.embedding_width=-2 must be 0"),
        (dict(first_position=2, position="sinusoidal"), "model.first_position=2 is for model.position=learned"),
    ],
)
def test_settings_of_no_model(choices: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=re.escape(named)):
        BERTConfig(**SIZED, **choices)


def test_a_text_that_is_too_long_is_told_in_words_not_in_rows() -> None:
    model = BERT(BERTConfig(**SIZED, first_position=2), VOCABULARY)
    with pytest.raises(UserError, match="a sequence of 14 tokens does not fit the 13 learned positions"):
        model(torch.ones(1, 14, dtype=torch.long), torch.tensor([14]))
    assert model(torch.ones(1, 13, dtype=torch.long), torch.tensor([13])).shape == (1, 13, VOCABULARY)
