"""`regard export --to ctranslate2` and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.commands import export_engine
from regard.interop.exported import Measure
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


def test_a_folder_that_the_engine_cannot_open_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_engine, "write_folder", lambda folder, *rest: (folder / "model.bin").write_bytes(b"\6\0\0\0"))
    ran = regard("export", trained(), tmp_path / "out", "--to", "ctranslate2")
    refused(ran, "CTranslate2 cannot run what was written", "nothing was exported")
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
    refused(ran, "--to ctranslate2 needs packages that are not installed", "pip install 'regard[export]'")
    assert contents(tmp_path) == {}


def said_by(folder: Path, *typed: str) -> list[str]:
    """Return the lines of the folder's run.py, in a process where regard cannot be imported."""
    blocked = "import sys, runpy; sys.modules['regard'] = sys.modules['torch'] = None; sys.argv = sys.argv[1:]; "
    script = [sys.executable, "-c", f"{blocked}runpy.run_path(sys.argv[0], run_name='__main__')", str(folder / "run.py")]
    ran = subprocess.run([*script, *typed], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.slow
def test_run_py_translates_as_here(tmp_path: Path) -> None:
    """Encoder, first step and next step, with ONNX Runtime and the tokenizer alone."""
    ran = regard("export", trained(), tmp_path / "out", "--to", "onnx")
    assert ran.code == 0, ran.err
    assert "on 100 inputs, at most 0.0001 is allowed" in ran.err
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".onnx", ".py", ".json"}
    ours = open_run(trained(), "cpu", ["decode.search=greedy", "decode.maximum_length=200"])
    assert said_by(tmp_path / "out", *SOURCES) == [rows[0].text for rows in ours.translate(SOURCES)]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_run_py_continues_a_text_as_here(tmp_path: Path) -> None:
    ran = regard("export", writer(), tmp_path / "out", "--to", "onnx")
    assert ran.code == 0, ran.err
    prompts = ["the cat", "the dog sees"]
    ours = regard("predict", writer(), *prompts, "decode.search=greedy", "decode.maximum_length=8")
    assert ours.code == 0, ours.err
    found = "\n".join(said_by(tmp_path / "out", *prompts))
    assert found.split() == ours.out.split()


def test_run_py_names_the_label_as_here(tmp_path: Path) -> None:
    ran = regard("export", classifier("bert"), tmp_path / "out", "--to", "onnx")
    assert ran.code == 0, ran.err
    texts = ["the old cat is not nice", "the wet dog is nice today"]
    answers = open_run(classifier("bert"), "cpu").classify(texts)  # type: ignore[attr-defined]
    for line, answer in zip(said_by(tmp_path / "out", *texts), answers):
        found = json.loads(line.partition("\t")[2].replace("'", '"'))
        assert found == pytest.approx(answer.probabilities, abs=1e-5)


def test_a_different_graph_is_refused_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that fails on numbers that are none, as a broken graph gives them."""
    measure = Measure("largest difference of outputs", float("nan"), 1e-4)
    monkeypatch.setattr(export_engine, "write_graphs", lambda folder, subject, settings: (folder / "model.onnx").touch())
    monkeypatch.setattr(export_engine, "compare_graphs", lambda engine, folder, subject: [measure])
    ran = regard("export", classifier("gpt"), tmp_path / "out", "--to", "onnx")
    refused(ran, "ONNX Runtime and this run differ on 100 inputs", "nothing was exported")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime", "onnxscript"])
def test_onnx_without_its_packages_is_one_sentence(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    refused(regard("export", trained(), tmp_path / "out", "--to", "onnx"), "--to onnx needs packages", missing, "regard[export]")
    assert contents(tmp_path) == {}


def test_a_family_without_a_place_is_refused_before_it_is_built(tmp_path: Path) -> None:
    """A forecaster's sizes come with its data, which an export does not read."""
    sizes = ["train.steps=1", "train.warmup=0", "train.validate_every=1", "train.checkpoint_every=1"]
    sizes += ["model.width=8", "model.heads=2", "model.layers=1", "model.feedforward=8"]
    assert regard("train", "forecast", *sizes, "--out", tmp_path / "run").code == 0
    for kind, said in (("ctranslate2", "model.family="), ("onnx", "no graph for model.family="), ("hf", "it writes patchtst")):
        refused(regard("export", tmp_path / "run", tmp_path / "out", "--to", kind), said)
    assert not (tmp_path / "out").exists()
