"""Bots that write: one task for one turn or many, whatever the model; scored, looked into and talked to by the commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from regard.data.sources import Pair
from regard.runs.recipe import load_recipe
from regard.tasks.dialogue.predict import Fit, Responder
from regard.tasks.dialogue.prepare import prepare, read_test
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.tasks.tiny_dialogues import SMALL, data, files, trained

WRITERS = ("chat-single", "chat-multi", "chat-hran")


@pytest.mark.parametrize("recipe", WRITERS)
def test_a_run_answers_and_is_scored(recipe: str) -> None:
    run = trained(recipe)
    said = regard("predict", run, "hi , i am nora .", "", "who am i ? __eou__ you are nora . __eou__ where do i live ?")
    assert said.code == 0
    assert len(said.out.splitlines()) == 3
    assert said.out.splitlines()[1] == ""
    told = json.loads(regard("evaluate", run, "--json").out)
    assert 0 <= told["recall_1"] <= told["recall_2"] <= told["recall_5"] <= 1
    assert told["perplexity"] > 1
    assert told["candidates"] == 10


def test_perplexity_of_a_test_is_that_of_validation_on_the_same_dialogues() -> None:
    """Two ways to the same number: the training loss, and the ranking of candidates."""
    run = trained("chat-multi")
    recipe = load_recipe(str(run / "recipe.toml"), [f"data.valid={files() / 'test.txt'}"])
    prepared, bot = prepare(recipe, run, lambda line: None), open_run(run, "cpu")
    assert isinstance(bot, Responder)
    nll = prepared.validator(prepared.objective())(bot.model).metrics["nll"]
    assert bot.evaluate(read_test(recipe)).scores.perplexity == pytest.approx(float(np.exp(nll)), rel=1e-4)


def test_more_turns_are_seen_by_who_was_trained_with_more() -> None:
    single, multi = (load_recipe(name, data()) for name in ("chat-single", "chat-multi"))
    assert not any("__eou__" in pair.source for pair in read_test(single))
    assert any(pair.source.count("__eou__") > 2 for pair in read_test(multi))
    assert [pair.target for pair in read_test(single)] == [pair.target for pair in read_test(multi)]


def test_the_oldest_turns_leave_where_there_is_no_room() -> None:
    bot = open_run(trained("chat-multi"), "cpu")
    assert isinstance(bot, Responder)
    (pair,) = Fit(bot.fit.tokenizer, turns=3, room=6)([Pair("who am i ? __eou__ no , never . __eou__ yes , i am .", "x")])
    assert pair == ("yes , i am .", "x")
    (pair,) = Fit(bot.fit.tokenizer, turns=2, room=99)([Pair("who am i ? __eou__ no , never . __eou__ yes , i am .", "x")])
    assert pair == ("no , never . __eou__ yes , i am .", "x")


def test_what_was_said_before_changes_what_is_read_and_only_so_far() -> None:
    bot = open_run(trained("chat-single"), "cpu")
    assert isinstance(bot, Responder)
    assert bot(["i am nora .", "who am i ?"]) == bot("who am i ?")
    assert bot("i am nora . __eou__ who am i ?") == bot(["i am nora .", "who am i ?"])


def test_the_same_command_again_changes_nothing_and_other_turns_are_another_run() -> None:
    run = trained("chat-single")
    again = regard("train", "chat-single", *data(), *SMALL, "--out", run, "--device", "cpu")
    assert "nothing left to train" in again.err
    refused(regard("train", "chat-single", *data(), *SMALL, "data.turns=2", "--out", run), "data.turns=2", "other settings")


@pytest.mark.parametrize("recipe", ["chat-multi", "chat-hran"])
def test_lens_draws_what_a_reply_attended_to(recipe: str, tmp_path: Path) -> None:
    drawn = regard("lens", trained(recipe), "i am nora . __eou__ who am i ?", "--out", tmp_path / "a.json")
    assert drawn.code == 0, drawn.err
    assert (tmp_path / "a.json").stat().st_size


def test_two_vocabularies_are_refused() -> None:
    refused(regard("train", "chat-single", "text.joint=false", "model.tie=none", "--dry-run"), "text.joint=false", "share one")


def test_a_run_moved_elsewhere_is_the_same(tmp_path: Path) -> None:
    moved = shutil.copytree(trained("chat-single"), tmp_path / "moved")
    assert regard("predict", moved, "who am i ?").out == regard("predict", trained("chat-single"), "who am i ?").out
