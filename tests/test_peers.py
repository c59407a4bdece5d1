"""A peer in another environment is asked in JSON, does what ours does with the same weights, and is never left out in silence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.peers import joeynmt
from benchmarks.peers.apart import Abroad
from benchmarks.peers.joeynmt_recurrent import begin_alike
from regard.data.batching.pairs import Batch, EncodedPairs, Ragged, make_batch
from regard.families.recurrent import Recurrent, RecurrentConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.recurrent.cells import CellKind
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.text.specials import EOS, PAD, SOS
from tests.decode.searches import beam_search

WORDS, OUTPUT = 53, 12
ECHO = """
from benchmarks.peers.apart import serve

def joins(*words):
    print("a library says something")
    return " ".join(words)

def fails():
    raise RuntimeError("no")

serve({"joins": joins, "fails": fails})
"""
needs_joeynmt = pytest.mark.skipif(not joeynmt.ready(), reason="needs 'make peers'")


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Abroad]:
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return lambda: Abroad(Path(sys.executable), "echo")


def test_only_answers_are_heard_and_it_ends_when_dropped(start: Callable[[], Abroad]) -> None:
    echo = start()
    assert [echo.ask("joins", "a", word) for word in ("b", "ü\n")] == ["a b", "a ü\n"]
    process = echo.process
    assert process.poll() is None
    del echo
    assert process.poll() == 0


def test_a_failure_over_there_is_one_here(start: Callable[[], Abroad]) -> None:
    echo = start()
    for _ in range(2):  # it stays ended
        with pytest.raises(SystemExit, match="echo ended with status 1"):
            echo.ask("fails")


def test_without_its_environment_it_is_said_to_be_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(joeynmt, "HOME", tmp_path)
    assert not joeynmt.ready()
    assert joeynmt.version() == {}
    assert "left out" in joeynmt.remark()
    assert capsys.readouterr().out == joeynmt.remark() + "\n"


def pairs(*lengths: tuple[int, int]) -> Batch:
    random = np.random.default_rng(0)
    source, target = (Ragged([random.integers(4, WORDS, n).tolist() for n in side]) for side in zip(*lengths))
    return make_batch(EncodedPairs(source, target), np.arange(len(lengths)))


@pytest.fixture
def model() -> Transformer:
    """Shaken, since biases and norms start at 0 and 1, where a mistake would not show."""
    config = TransformerConfig(width=32, heads=4, feedforward=48, encoder_layers=2, decoder_layers=3, dropout=0.0)
    model = Transformer(config, WORDS, WORDS)
    draw = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=draw)
    return model.eval()


def mean_loss(model: nn.Module, batch: Batch) -> Tensor:
    return Seq2SeqLoss(Seq2SeqConfig(smoothing=0.0))(model, batch).total / batch.tokens


def memorise(model: Transformer, batch: Batch) -> None:
    """A Transformer with random weights says one word for ever, in which searches would agree by chance."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        mean_loss(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()


@needs_joeynmt
def test_joeynmt_has_our_loss_and_learns(model: Transformer) -> None:
    batch = pairs((9, 4), (2, 7), (5, 1))
    trainer = joeynmt.trainer(model, [batch], bf16=False)
    with torch.no_grad():
        ours = mean_loss(model, batch).item()
    first = trainer.ask("loss")
    assert first == pytest.approx(ours, rel=1e-5)
    trainer.ask("epoch")
    assert trainer.ask("loss") < first


@needs_joeynmt
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("mixer", ["bilinear", "additive"])
def test_joeynmt_has_the_loss_of_our_recurrent_models(cell: CellKind, mixer: str) -> None:
    """With input feeding in one of them; of two layers, since its decoder begins all of them alike."""
    feeding = mixer == "bilinear"
    config = RecurrentConfig(cell=cell, mixer=mixer, width=12, layers=2, dropout=0.0, input_feeding=feeding)
    recurrent = Recurrent(config, WORDS, WORDS)
    draw = torch.Generator().manual_seed(3)
    for parameter in recurrent.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)
    begin_alike(recurrent)
    batch = pairs((9, 4), (2, 7), (5, 1))
    with torch.no_grad():
        ours = mean_loss(recurrent.eval(), batch).item()
    assert joeynmt.trainer(recurrent, [batch], bf16=False).ask("loss") == pytest.approx(ours, rel=1e-5)


@needs_joeynmt
def test_joeynmt_finds_our_beams(model: Transformer) -> None:
    batch = pairs(*[(length, OUTPUT + 3) for length in (8, 3, 5, 8, 1, 6)])
    memorise(model, batch)
    read = model.start(batch.source_BM, batch.source_lengths_B)
    found = beam_search(read, sos=SOS, eos=EOS, beam=4, alpha=0.0, limits=[OUTPUT] * 6, minimum_length=OUTPUT, banned=(PAD, SOS))
    ours = [hypotheses[0].ids for hypotheses in found]
    assert min(len(set(ids)) for ids in ours) > OUTPUT // 2
    assert joeynmt.translator(model).ask("translate", batch.source_BM.tolist(), 4, OUTPUT) == ours
