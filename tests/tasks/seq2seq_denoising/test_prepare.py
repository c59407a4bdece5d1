"""Denoising: every noise trains, a stopped run goes on as if it had not been, and its weights can be trained on."""

from __future__ import annotations

import re
import signal
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from regard.commands.train import dry_run_lines
from regard.core.errors import UserError
from regard.data.batching.noise import KINDS, fill_spans
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.tasks.seq2seq_denoising.prepare import Corrupted, prepare
from regard.text.config import KINDS as TOKENIZERS
from regard.text.specials import EOS, PAD
from regard.training.progress import Interrupt
from tests.tasks.tiny_noise import TINY, WINDOW, data, tiny_recipe, train, trained
from tests.tasks.tiny_text import CPU, last_weights, quiet, write_stories

NOISES = [*KINDS, "permutation+infilling"]
every = pytest.mark.parametrize("noise", NOISES)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def prepared(noise: str, *settings: str) -> Corrupted:
    return prepare(tiny_recipe(noise, data(), *settings), None, quiet)


def test_a_learned_vocabulary_is_the_same_for_every_noise() -> None:
    one, other = prepared("span_corruption"), prepared("rotation")
    assert one.tokenizer.fingerprint() == other.tokenizer.fingerprint()
    assert len(one.tokenizer.sentinels()) == 100
    assert one.tokenizer.roles.mask is not None


@every
def test_batches_have_room_and_are_counted(noise: str) -> None:
    found = prepared(noise)
    source = found.source(packed=False)
    for epoch in (0, 2):
        for rows in source.plan(epoch):
            batch = source.batch(rows, epoch)
            assert batch.source_BM.shape[1] <= WINDOW
            assert batch.tokens == source.count(rows) == int((batch.target_out_BL != PAD).sum())


def test_a_window_of_span_corruption_is_what_the_model_reads() -> None:
    source = prepared("span_corruption", "data.document_mask=false").source(packed=False)
    lengths = [int(n) for rows in source.plan(0) for n in source.batch(rows, 0).source_lengths_B]
    assert sorted(lengths)[2:] == [WINDOW] * (len(lengths) - 2)  # all but the first and the last passage


def test_the_text_is_in_inputs_and_targets() -> None:
    found = prepared("span_corruption")
    source = found.source(packed=False)
    for rows in source.plan(0)[:5]:
        batch, own = source.batch(rows, 0), [pair.target for pair in source.pairs(rows)]
        for row, target in enumerate(own):
            read = batch.source_BM[row, : batch.source_lengths_B[row] - 1].numpy()
            text = found.tokenizer.decode(fill_spans(read, target, source.noise.ids.sentinels).tolist())
            assert re.fullmatch(r"[a-z]* ?((the|cat|dog|bird|horse|sees|hears|likes|\.)[ .\n]*)*[a-z]*", text)
            assert batch.source_BM[row, batch.source_lengths_B[row] - 1] == EOS


def test_validation_noise_is_always_the_same_and_that_of_training_is_seeded() -> None:
    one, two = (prepared("infilling", f"train.seed={seed}") for seed in (1, 2))
    first, second = ([b.source_BM.tolist() for b in p.valid_batches().in_order()] for p in (one, two))
    assert first == second
    assert one.source(packed=False).plan(0)[0].tolist() != two.source(packed=False).plan(0)[0].tolist()


@pytest.mark.parametrize("kind", [kind for kind in TOKENIZERS if kind not in ("byte", "spaced")])
def test_every_kind_of_vocabulary(kind: str) -> None:
    found = prepared("permutation+infilling", f"text.tokenizer={kind}", "text.size=300")
    batch = next(iter(found.valid_batches().in_order()))
    assert (batch.source_BM == found.tokenizer.roles.mask).any()


@pytest.mark.parametrize("noise", ["span_corruption", "prefix_lm", "permutation+infilling"])
def test_stopped_anywhere_it_ends_as_if_it_had_not_been(noise: str, tmp_path: Path) -> None:
    settings = ["model.dropout=0.1"]
    train(tmp_path / "whole", noise, data(), *settings)
    with patch("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT))):
        for step in (1, 2, 3):
            assert train(tmp_path / "parts", noise, data(), *settings).progress.step == step
    train(tmp_path / "parts", noise, data(), *settings)
    assert last_weights(tmp_path / "whole") == last_weights(tmp_path / "parts")


@every
def test_metrics_and_samples_of_a_validation(noise: str) -> None:
    found = prepared(noise)
    validation = found.validator(found.objective())(found.model().eval())
    assert validation.metrics.keys() == {"nll", "perplexity"}
    assert len(validation.samples) == 3
    given, written, _ = validation.samples[0].rpartition("\n  model")
    assert written
    assert ("<extra_id_0>" in given) == (noise == "span_corruption")


@every
def test_what_it_would_cost(noise: str) -> None:
    assert "target tokens" in "\n".join(dry_run_lines(tiny_recipe(noise, data()), CPU, quiet))


def test_the_operations_counted_are_those_of_a_window_and_its_target() -> None:
    found = prepared("span_corruption", "data.window=64")
    tree, written = found.example()
    assert written == 14  # of 70 tokens, 10 in 3 spans are hidden
    assert tree.parameters == sum(p.numel() for p in found.model().parameters())


def test_another_noise_goes_on_from_a_run() -> None:
    settings = [f"task.init_from={trained('span_corruption')}", f"data.train={data()}", "objective.noise=deletion"]
    found = prepare(load_recipe_to_train("t5", [*settings, "train.steps=1", "train.warmup=0"]), None, quiet)
    ours, theirs = found.model().state_dict(), start_of(str(trained("span_corruption"))).weights
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_sentences_that_no_piece_ends(tmp_path: Path) -> None:
    text = write_stories(tmp_path / "text.jsonl", ["no full stop in all of this " * 9] * 9)
    with pytest.raises(UserError, match="no piece of this vocabulary ends one"):
        prepare(tiny_recipe("permutation", text, *TINY), None, quiet)


def test_more_spans_than_sentinels() -> None:
    with pytest.raises(UserError, match=r"needs .* sentinels for windows of 2,400 tokens, but the vocabulary has 100"):
        prepared("span_corruption", "data.window=2400")
