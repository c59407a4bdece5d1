"""`regard export --to ctranslate2` and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.commands import export_engine
from regard.tasks.registry import open_run
from tests.command import contents, refused, regard, tiny, trained
from tests.interop.test_marian_run import folder_with_weights
from tests.tasks.tiny_labels import trained as classifier
from tests.tasks.tiny_text import trained as writer

CPU: dict[str, Any] = dict(device="cpu", inter_threads=1, intra_threads=1)
SOURCES = ["the cat sees the dog .", "the horse likes the bird .", "the dog"]


@pytest.mark.parametrize("kind", ["", "int8", "int8_float16", "bfloat16"])
def test_a_run_translates_as_here(kind: str, tmp_path: Path) -> None:
    """Through the tokenizer.json of the folder, by greedy search."""
    import tokenizers

    ran = regard("export", trained(), tmp_path / "out", "--to", "ctranslate2", *(["--quantization", kind] if kind else []))
    assert ran.code == 0, ran.err
    assert "on 100 inputs" in ran.err
    assert f"ctranslate2.Translator({str(tmp_path / 'out')!r})" in ran.err
    assert json.loads((tmp_path / "out" / "config.json").read_text())["decoder_start_token"] == "<sos>"
    if not kind:
        opened = ctranslate2.Translator(str(tmp_path / "out"), **CPU)
        reads = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
        given = [reads.encode(text).tokens for text in SOURCES]
        assert [tokens[-1] for tokens in given] == ["<eos>"] * 3
        found = opened.translate_batch(given, beam_size=1, max_decoding_length=8, suppress_sequences=[["<pad>"], ["<sos>"]])
        texts = [reads.decode([reads.token_to_id(piece) for piece in one.hypotheses[0]]) for one in found]
        ours = open_run(trained(), "cpu", ["decode.search=greedy", "decode.maximum_length=8"])
        assert texts == [rows[0].text for rows in ours.translate(SOURCES)]  # type: ignore[attr-defined]


def test_a_classifier_gives_its_vectors_and_keeps_its_head(tmp_path: Path) -> None:
    ran = regard("export", classifier("bert"), tmp_path / "out", "--to", "ctranslate2")
    assert ran.code == 0, ran.err
    assert "Encoder(" in ran.err
    assert load_file(tmp_path / "out" / "heads.safetensors")["classes.project.weight"].shape[1] == 24
    ours = open_run(classifier("bert"), "cpu")
    opened = ctranslate2.Encoder(str(tmp_path / "out"), **CPU)
    ids_BL = torch.tensor([[5, 6, 7, 8]])
    said = opened.forward_batch(ids_BL.tolist())
    with torch.no_grad():
        expected_BLD = ours.model.body.hidden(ids_BL, torch.tensor([4]))  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.array(said.last_hidden_state), expected_BLD.numpy(), atol=1e-5)


def test_a_writer_and_a_classifier_on_it_are_generators(tmp_path: Path) -> None:
    for name, run in (("writer", writer()), ("classifier", classifier("gpt"))):
        ran = regard("export", run, tmp_path / name, "--to", "ctranslate2", "--quantization", "float32")
        assert ran.code == 0, ran.err
        assert "Generator(" in ran.err


@pytest.mark.parametrize("apart", [False, True])
def test_a_marian_with_two_tokenizers(apart: bool, tmp_path: Path) -> None:
    folder_with_weights(tmp_path / "theirs", apart)
    assert regard("import", tmp_path / "theirs", tmp_path / "run").code == 0
    ran = regard("export", tmp_path / "run", tmp_path / "out", "--to", "ctranslate2")
    assert ran.code == 0, ran.err
    assert (tmp_path / "out" / "tokenizer.target.json").exists()


def test_a_difference_is_refused_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = export_engine.write_folder

    def wrong(folder: Path, subject: Any, heads: Any, quantization: str) -> None:
        scale = subject.model.source.scale
        subject.model.source.scale = 1.01 * scale
        right(folder, subject, heads, quantization)
        subject.model.source.scale = scale

    monkeypatch.setattr(export_engine, "write_folder", wrong)
    ran = regard("export", trained(), tmp_path / "out", "--to", "ctranslate2")
    refused(ran, "CTranslate2 and this run differ on 100 inputs", "at most 0.0001 is allowed", "nothing was exported")
    assert contents(tmp_path) == {}


def test_what_is_asked_wrongly_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "plain").write_text("a file")
    before = contents(tmp_path)
    run, out = trained(), tmp_path / "out"
    for given, *said in (
        ((run, tmp_path / "full", "--to", "ctranslate2"), "exists already"),
        ((run, tmp_path / "plain", "--to", "ctranslate2"), "exists already"),
        ((run, out, "--to", "ctranslate"), "is not a format", "ctranslate2"),
        ((run, out, "--to", "ctranslate2", "--quantization", "int4"), "--quantization int4 is not a choice", "int8"),
        ((run, out, "--to", "ctranslate2", "--quantization", "INT8"), "--quantization INT8 is not a choice"),
        ((run, out, "--to", "hf", "--quantization", "int8"), "is for --to ctranslate2"),
        ((run, out, "--to", "onnx", "--quantization", "int8"), "is for --to ctranslate2"),
        ((tmp_path / "none", out, "--to", "ctranslate2"), "none"),
        ((tmp_path / "full", out, "--to", "ctranslate2"), "full"),
        ((tmp_path / "plain", out, "--to", "ctranslate2"), "plain"),
        ((tiny(), out, "--to", "ctranslate2"), "tiny.toml"),
    ):
        refused(regard("export", *given), *said)
    assert contents(tmp_path) == before


def test_an_engine_that_is_not_installed_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    ran = regard("export", trained(), tmp_path / "out", "--to", "ctranslate2")
    refused(ran, "--to ctranslate2 needs ctranslate2", "pip install 'regard[export]'")
    assert contents(tmp_path) == {}
