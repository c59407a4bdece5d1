"""Text to text: files are read, mixed and cut as asked, a stopped run goes on as if it had not been, and pre-training helps."""

from __future__ import annotations

import re
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from regard.commands.train import dry_run_lines, train_run
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.tasks.text_to_text.prepare import TextToText, prepare
from regard.training.progress import Interrupt
from tests.tasks import tiny_noise
from tests.tasks.tiny_reports import TINY, TWO, data, moods, rows, tiny_recipe, train, write_jsonl
from tests.tasks.tiny_text import CPU, last_weights, quiet


def prepared(*settings: str, said: list[str] | None = None) -> TextToText:
    return prepare(tiny_recipe(*settings), None, quiet if said is None else said.append)


def test_what_is_said_of_files() -> None:
    said: list[str] = []
    prepared(f"data.train={data()},{moods()}", *TWO, said=said)
    lines = "\n".join(said)
    assert "input 'input', target 'target', by its names" in lines
    assert "'last: the " in lines
    assert "'mood: the " in lines
    assert re.search(r"mixed: batches of an epoch: \d+ of \S+data.jsonl, \d+ of \S+moods.jsonl", lines)


def test_inputs_are_cut_and_long_targets_left_out(tmp_path: Path) -> None:
    pairs = [*rows(40), ("the cat " * 30, "the cat"), ("the dog", "the dog " * 30)]
    said: list[str] = []
    found = prepared(
        f"data.train={write_jsonl(tmp_path / 'a.jsonl', pairs)}", "data.maximum_input=16", "data.maximum_target=16", said=said
    )
    assert "1 of 3" in "\n".join(said)  # of those that are not held out
    assert found.train[0].source.lengths.max() <= 15
    assert found.train[0].target.lengths.max() < 16
    assert found.train[0].dropped <= 1


def test_all_files_are_validated_on_in_their_order() -> None:
    found = prepared(f"data.train={data()},{moods()}", *TWO)
    begins = [pair.input.split(":")[0] for pair in found.written]
    assert set(begins) == {"last", "mood"}
    assert found.metric == "rouge_l"


@pytest.mark.parametrize(("answers", "metric"), [("text", "rouge_l"), ("labels", "accuracy"), ("numbers", "pearson")])
def test_the_best_weights_are_chosen_by_the_score_of_the_task(answers: str, metric: str, tmp_path: Path) -> None:
    numbers = write_jsonl(tmp_path / "numbers.jsonl", [(text, str(n % 5)) for n, (text, _) in enumerate(rows(60))])
    where = {"text": data(), "labels": moods(), "numbers": numbers}[answers]
    outcome = train(tmp_path / "run", f"data.train={where}", f"data.answers={answers}")
    assert outcome.prepared.recipe.train.best == metric
    assert metric in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_numbers_are_written_in_steps(tmp_path: Path) -> None:
    pairs = write_jsonl(tmp_path / "numbers.jsonl", [(f"the cat {n}", str(n * 0.26)) for n in range(20)])
    found = prepared(f"data.train={pairs}", "data.answers=numbers", "data.step=0.2", "text.tokenizer=character")
    written = {found.tokenizer.decode(found.train[0].target[n].tolist()) for n in range(len(found.train[0]))}
    assert {"0.0", "0.2", "0.6"} <= written | {pair.targets[0] for pair in found.written}
    assert all(re.fullmatch(r"[0-9]\.[02468]", text) for text in written)


def test_stopped_anywhere_it_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    settings = [f"data.train={data()},{moods()}", *TWO]
    train(tmp_path / "whole", *settings)
    with patch("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT))):
        for step in (1, 2, 3):
            assert train(tmp_path / "parts", *settings).progress.step == step
    train(tmp_path / "parts", *settings)
    assert last_weights(tmp_path / "whole") == last_weights(tmp_path / "parts")


def test_what_it_would_cost_and_what_is_counted() -> None:
    assert "target tokens" in "\n".join(dry_run_lines(tiny_recipe(), CPU, quiet))
    found = prepared()
    tree, target = found.example()
    assert target == 3  # the, an animal, the end
    assert tree.parameters == sum(p.numel() for p in found.model().parameters())


def test_it_begins_with_what_denoising_has_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    start = tiny_noise.trained("span_corruption")
    plain = [setting for setting in TINY if not setting.startswith(("model.", "text."))]
    settings = [f"task.init_from={start}", f"data.train={data()}", *plain, "train.steps=2", "train.warmup=1"]
    recipe = load_recipe_to_train("summarize", settings)
    ours, theirs = prepare(recipe, None, quiet).model().state_dict(), start_of(str(start)).weights
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    outcome = train_run(replace(recipe, data=replace(recipe.data, test=(str(data()),))), tmp_path / "run", CPU, quiet)
    assert outcome.result is not None
    assert {"rouge_1", "rouge_2", "rouge_l", "bleu", "chrf", "exact"} <= outcome.result.as_dict().keys()


def test_a_test_that_was_trained_on_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    prepared(f"data.test={data()}", said=said)
    assert any("test inputs are also in train" in line for line in said)
