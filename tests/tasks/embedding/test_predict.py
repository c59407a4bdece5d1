"""Sentence vectors from folders of transformers and from runs of ours, against transformers' own model and plain numpy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import regard
from regard.commands.convert import export_run, import_public
from regard.core.errors import UserError
from regard.interop.huggingface.sentence_transformers import written_sentences
from regard.model.heads import VectorsConfig
from regard.tasks.embedding.predict import Embedder
from regard.tasks.registry import open_run
from tests.tasks.adopted_folder import TEXTS, folder_of
from tests.tasks.tiny_labels import labeller, quiet, trained

BODIES = ["BertModel", "RobertaModel", "DistilBertModel"]
CUT = 8


@torch.no_grad()
def theirs(folder: Path, texts: list[str], pooling: str = "mean", normalised: bool = False, cut: int = 100) -> np.ndarray:
    """One by one, so that nothing is padded."""
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder).eval()
    found = []
    for text in texts:
        given = tokenizer(text, truncation=True, max_length=cut, return_tensors="pt")
        hidden = model(**given).last_hidden_state[0].numpy()
        vector = hidden.mean(0) if pooling == "mean" else hidden[0]
        found.append(vector / np.linalg.norm(vector) if normalised else vector)
    return np.stack(found)


def opened(where: Path | str, *settings: str) -> Embedder:
    found = open_run(where, "cpu", settings)
    assert isinstance(found, Embedder)
    return found


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalised", [False, True])
def test_vectors_are_those_of_transformers(name: str, pooling: str, normalised: bool) -> None:
    chosen = [f"objective.pooling={pooling}", f"objective.normalised={str(normalised).lower()}"]
    found = opened(folder_of(name), *chosen)(TEXTS)
    expected = theirs(folder_of(name), TEXTS, pooling, normalised)
    assert expected.std() > 0.05
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_what_a_folder_of_sentence_transformers_says_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "sentences"
    shutil.copytree(folder_of("BertModel"), folder)
    for name, text in written_sentences(VectorsConfig(pooling="cls", normalised=True), 24, CUT).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    expected = theirs(folder, TEXTS, "cls", normalised=True, cut=CUT)
    np.testing.assert_allclose(opened(folder)(TEXTS), expected, atol=1e-4)
    assert np.abs(theirs(folder, TEXTS, "cls", normalised=True) - expected).max() > 0.01  # something was cut
    import_public(str(folder), tmp_path / "run", quiet)
    np.testing.assert_allclose(opened(tmp_path / "run")(TEXTS), expected, atol=1e-4)
    np.testing.assert_allclose(
        opened(tmp_path / "run", "objective.pooling=mean")(TEXTS[:1]), theirs(folder, TEXTS[:1], "mean", True, CUT), atol=1e-4
    )
    export_run(tmp_path / "run", tmp_path / "out", "hf", quiet)
    np.testing.assert_allclose(opened(tmp_path / "out")(TEXTS), expected, atol=1e-4)


def test_a_name_on_the_hub_brings_how_its_vectors_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of the hub's cache, and no way out."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--owner--small"
    folder = Path(shutil.copytree(folder_of("BertModel"), repository / "snapshots" / commit))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    for name, text in written_sentences(VectorsConfig(normalised=True), 24, CUT).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    np.testing.assert_allclose(opened("hf:owner/small")(TEXTS), theirs(folder, TEXTS, normalised=True, cut=CUT), atol=1e-4)


def test_whatever_a_body_was_trained_for_it_gives_vectors(tmp_path: Path) -> None:
    """Of a folder with heads, and of a run of ours, whose folder for others is asked for the same."""
    heads = folder_of("BertForTokenClassification")
    np.testing.assert_allclose(opened(heads, "task.name=embedding")(TEXTS), theirs(heads, TEXTS), atol=1e-4)
    export_run(trained("bert"), tmp_path / "out", "hf", quiet)
    texts = ["the old cat is not nice", "the wet dog is nice today"]
    np.testing.assert_allclose(
        opened(trained("bert"), "task.name=embedding")(texts), theirs(tmp_path / "out", texts, cut=24), atol=1e-4
    )
    ours = labeller("bert")  # whose pooler reads the first token's vector
    first = opened(trained("bert"), "task.name=embedding", "objective.pooling=cls")(texts)
    with torch.no_grad():
        logits = ours.model.classes(torch.tanh(ours.model.body.pooler.project(torch.from_numpy(first))))  # type: ignore[union-attr,operator]
    said = [list(answer.probabilities.values()) for answer in ours.classify(texts)]
    np.testing.assert_allclose(logits.softmax(-1).numpy(), said, atol=1e-5)


def test_one_text_or_many_or_none() -> None:
    embedder = regard.load(str(folder_of("BertModel")), "cpu")
    many = embedder(TEXTS)
    assert many.shape == (len(TEXTS), 24)
    assert many.dtype == np.float32
    np.testing.assert_allclose(embedder(TEXTS[2]), many[2], atol=1e-5)
    assert embedder([]).shape == (0, 24)
    assert embedder("").shape == (24,)


def test_cosines_of_one_with_one_and_of_many_with_many() -> None:
    embedder = opened(folder_of("BertModel"))
    a, b = embedder(TEXTS[:2]).astype(float), embedder(TEXTS[2:]).astype(float)
    expected = (a @ b.T) / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    np.testing.assert_allclose(embedder.similarity(TEXTS[:2], TEXTS[2:]), expected, atol=1e-5)
    np.testing.assert_allclose(embedder.similarity(TEXTS[0], TEXTS[2:]), expected[0], atol=1e-5)
    assert embedder.similarity(TEXTS[1], TEXTS[3]) == pytest.approx(expected[1, 1], abs=1e-5)
    assert isinstance(embedder.similarity("a", "a"), float)


@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_told_can_be_read_back(as_json: bool) -> None:
    embedder = opened(folder_of("BertModel"))
    texts, heard = [TEXTS[0], "  ", 'with "quotes" and 漢字\\'], list[str]()
    embedder.predict(texts, 0, as_json, heard.append)
    lines: list[Any] = [json.loads(line) if line.strip() else None for line in heard]
    if as_json:
        assert [line["text"] for line in lines] == texts
        lines = [line["vector"] for line in lines]
    assert lines[1] is None
    np.testing.assert_array_equal(np.array([lines[0], lines[2]], np.float32), embedder([texts[0], texts[2]]))


def test_long_texts_are_cut_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    embedder = opened(folder_of("BertModel"), f"data.maximum_tokens={CUT}")
    found = embedder([TEXTS[0] * 50, "a"])
    assert f"1 of 2 texts were longer than data.maximum_tokens={CUT} and have been cut" in capsys.readouterr().err
    np.testing.assert_allclose(found, theirs(folder_of("BertModel"), [TEXTS[0] * 50, "a"], cut=CUT), atol=1e-4)


def test_half_a_character_is_no_text() -> None:
    with pytest.raises(UserError, match="half a character"):
        opened(folder_of("BertModel"))("\ud800")
