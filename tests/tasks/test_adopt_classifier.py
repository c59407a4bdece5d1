"""Public folders with a head for whole texts, opened as they are: labels and probabilities are transformers' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers

import regard
from regard.core.errors import UserError
from regard.data.labels import Labels, Scale
from regard.tasks.classification import TASK
from regard.tasks.classification.predict import LABELS, Regressor, TextClassifier
from regard.tasks.registry import open_run
from tests.families.bert_folder import LABELS as NAMES
from tests.families.bert_folder import theirs

CLASSES = {
    "bert": "BertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "camembert": "CamembertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
    "electra": "ElectraForSequenceClassification",
}
ROBERTAS = ("roberta", "camembert")
TEXTS = ["ab cd", "a", "abc abcd ab", "dd cc bb aa"]
PAIRS = [("ab", "cd a"), ("d", "abcd"), ("bcd a", "b")]
LETTERS = ["a", "b", "c", "d", "##a", "##b", "##c", "##d", "ab", "cd"]


def tokenizer_of(kind: str) -> Any:
    """A tokenizer of theirs with the specials that this family has, in the order that its padding asks for."""
    if kind in ROBERTAS:
        names = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
    else:
        names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    pieces = {piece: n for n, piece in enumerate([*names.values(), *LETTERS])}
    raw = tokenizers.Tokenizer(tokenizers.models.WordPiece(pieces, unk_token=names["unk_token"]))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    start, end = names["cls_token"], names["sep_token"]
    pair = f"{start} $A {end} {end} $B {end}" if kind in ROBERTAS else f"{start}:0 $A:0 {end}:0 $B:1 {end}:1"
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{start} $A {end}", pair=pair, special_tokens=[(start, pieces[start]), (end, pieces[end])]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **names)


def folder(kind: str, where: Path, **keys: Any) -> tuple[Any, Any, Path]:
    peer, tokenizer = theirs(kind, CLASSES[kind], **keys), tokenizer_of(kind)
    peer.save_pretrained(where)
    tokenizer.save_pretrained(where)
    return peer, tokenizer, where


@torch.no_grad()
def their_scores(peer: Any, tokenizer: Any, texts: list[Any]) -> torch.Tensor:
    found = []
    for text in texts:
        given = tokenizer(*((text,) if isinstance(text, str) else text), return_tensors="pt", return_token_type_ids=True)
        if getattr(peer.config, "type_vocab_size", 1) < 2:
            given.pop("token_type_ids", None)
        found.append(peer(**given).logits[0])
    return torch.stack(found)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
def test_probabilities_are_theirs(kind: str, texts: list[Any], tmp_path: Path) -> None:
    peer, tokenizer, where = folder(kind, tmp_path)
    found = regard.load(str(where), "cpu").predictor
    assert isinstance(found, TextClassifier)
    expected = their_scores(peer, tokenizer, texts).softmax(-1)
    assert expected.std() > 0.02
    for answer, row in zip(found.classify(texts), expected):
        assert list(answer.probabilities) == list(NAMES)
        assert list(answer.probabilities.values()) == pytest.approx(row.tolist(), abs=1e-4)
        assert answer.label == NAMES[int(row.argmax())]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_one_score_is_a_number(kind: str, tmp_path: Path) -> None:
    peer, tokenizer, where = folder(kind, tmp_path, id2label={0: "LABEL_0"})
    found = regard.load(str(where), "cpu").predictor
    assert isinstance(found, Regressor)
    assert found(PAIRS) == pytest.approx(their_scores(peer, tokenizer, PAIRS)[:, 0].tolist(), abs=1e-4)  # type: ignore[arg-type]


def test_what_is_typed_may_be_a_text_or_a_pair(tmp_path: Path) -> None:
    found = open_run(folder("bert", tmp_path)[2], "cpu")
    assert isinstance(found, TextClassifier)
    told: list[str] = []
    found.predict(["ab cd", "ab\tcd", ""], None, False, told.append)
    expected = found.classify(["ab cd", ("ab", "cd")])
    assert told == [*(f"{a.label}\t{a.probabilities[a.label]:.4f}\n" for a in expected), "\n"]
    with pytest.raises(UserError, match="put a tab between the two"):
        found.predict(["ab\t"], None, False, told.append)


def test_vocabularies_of_an_adopted_folder_can_be_kept(tmp_path: Path) -> None:
    """What an import writes beside the weights."""
    found = open_run(folder("bert", tmp_path / "hf")[2], "cpu")
    labels = found.vocabularies[LABELS]  # type: ignore[attr-defined]
    labels.save(tmp_path / LABELS)
    assert Labels.load(tmp_path / LABELS) == labels == Labels(NAMES, 0)
    rater = open_run(folder("bert", tmp_path / "one", id2label={0: "x"})[2], "cpu")
    scale = rater.vocabularies[LABELS]  # type: ignore[attr-defined]
    scale.save(tmp_path / LABELS)
    assert Scale.load(tmp_path / LABELS) == scale


def test_a_folder_without_such_a_head_is_refused(tmp_path: Path) -> None:
    theirs("bert", "BertForMaskedLM").save_pretrained(tmp_path)
    tokenizer_of("bert").save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"no head|not trained for task classification"):
        open_run(tmp_path, "cpu", ["task.name=classification"])
    assert TASK.adopt is not None
