"""Folders that transformers wrote, model and vocabulary: what tests of opening, importing and exporting share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers

from tests.families.bert_folder import theirs
from tests.text.test_pretrained import bert as wordpiece_folder
from tests.text.test_pretrained import roberta as byte_level_folder

LONGEST = 100
TEXTS = ["the animal did not cross the street", "because it was TOO tired.", "la rue était large", "naïve 漢字, zu breit", "a"]
PAIRS = [(first, second) for first in TEXTS[:3] for second in TEXTS[2:]]

TAGS: dict[str, Any] = {"id2label": {0: "O", 1: "B-PER", 2: "I-PER"}}
TASKS = {
    "BertModel": "embedding",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "question_answering",
    "BertForMaskedLM": "masked_lm",
    "BertForPreTraining": "masked_lm",
    "RobertaModel": "embedding",
    "RobertaForSequenceClassification": "classification",
    "RobertaForQuestionAnswering": "question_answering",
    "RobertaForMaskedLM": "masked_lm",
    "DistilBertModel": "embedding",
    "DistilBertForSequenceClassification": "classification",
    "DistilBertForTokenClassification": "tagging",
    "ElectraForSequenceClassification": "classification",
    "ElectraForMaskedLM": "masked_lm",
    "ElectraForPreTraining": "masked_lm",
}
"""By the class of transformers that a folder is of, what it is opened for."""

_kept = TemporaryDirectory(prefix="regard-tests-")


@cache
def folder_of(name: str) -> Path:
    """To be read, not changed."""
    folder, kind = Path(_kept.name) / name, name.partition("For")[0].removesuffix("Model").lower()
    later, words = (2, 350) if kind == "roberta" else (0, 250)
    labels = TAGS if "Token" in name else {}
    theirs(kind, name, vocab_size=words, max_position_embeddings=LONGEST + later, **labels).save_pretrained(folder)
    return byte_level_folder(folder) if kind == "roberta" else wordpiece_folder(folder)


def columns(texts: list[Any]) -> list[list[str]]:
    """Of texts one list, of pairs two."""
    return [list(column) for column in zip(*texts)] if isinstance(texts[0], tuple) else [texts]


def their_model(folder: Path) -> Any:
    """Opened as its config.json says."""
    (name,) = transformers.AutoConfig.from_pretrained(folder).architectures
    return getattr(transformers, name).from_pretrained(folder).eval()


@torch.no_grad()
def their_answers(folder: Path, texts: list[Any]) -> dict[str, torch.Tensor]:
    """Of texts or pairs that their own tokenizer reads; by the names of outputs, of words only where there are words."""
    given = transformers.AutoTokenizer.from_pretrained(folder)(*columns(texts), padding=True, return_tensors="pt")
    mask_BL = given["attention_mask"].bool()
    found = {name: value for name, value in their_model(folder)(**given).items() if name != "pooler_output" and value is not None}
    return {name: value[mask_BL] if value.shape[:2] == mask_BL.shape else value for name, value in found.items()}
