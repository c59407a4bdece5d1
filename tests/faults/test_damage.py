"""Damaged checkpoints, damaged files of a run, changed data: a share of each; and a reader that trusts is caught by it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.command import refused, regard
from tests.faults import damage, run_files
from tests.faults.run_files import METRICS, SEALED, SETTINGS, TEXTS, Untouched, ask


def test_every_file_of_the_newest_checkpoint_every_damage(place: Path) -> None:
    tally = damage.campaign(place, flips=10)
    assert tally.wrong == []
    assert tally.injected == tally.detected == tally.recovered > 100


def test_a_reader_that_checks_no_sums_is_seen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself."""

    def trusting(folder: Path, name: str, expected: object) -> str | None:
        return None if (folder / name).is_file() else "not a plain file"

    monkeypatch.setattr("regard.training.checkpoint_files._difference", trusting)
    monkeypatch.setattr("tests.faults.damage.FILES", ("optimizer.safetensors",))
    tally = damage.campaign(place, flips=4)
    assert tally.silent > 10
    assert tally.lost > 10


QUICK = {
    "cut to 0%, train", "cut to 50%, predict", "zeros, train", "garbage, predict", "lost, predict", "lost, train",
    "a folder, train", "cut by a byte, train", "a byte more, predict",
}  # fmt: skip


@pytest.mark.parametrize("name", SEALED)
def test_a_damaged_file_of_a_run_is_told_or_does_no_harm(name: str, place: Path) -> None:
    tally = run_files.damage_campaign(place, [name], 3, lambda what: what in QUICK or what.startswith("flip"))
    assert tally.wrong == []
    assert tally.injected == len(QUICK) + 6
    assert tally.detected >= 5


def test_a_changed_vocabulary_or_model_is_refused_though_it_can_be_read(place: Path) -> None:
    """The damage no parser sees: a word is another, a model has more heads, and every weight still has the right shape."""
    untouched = Untouched.train(place)
    for name, old, new in (("tokenizer.json", '▁cat"', '▁cas"'), ("recipe.toml", "heads = 2", "heads = 4")):
        run = untouched.copy()
        text = (run / name).read_text()
        assert old in text
        (run / name).write_text(text.replace(old, new))
        refused(regard("predict", run, *TEXTS), f"do not fit its {name}", "data.json")
        refused(
            regard("train", run / "recipe.toml", "--out", run), name if name == "recipe.toml" else "training data is not what"
        )
        (run / name).write_text(text)
        assert untouched.predict(run)[1]
        shutil.rmtree(run)


def test_settings_that_may_change_are_not_sealed(place: Path) -> None:
    untouched = Untouched.train(place)
    run = untouched.copy()
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("beam = 2", "beam = 3").replace("steps = 20", "steps = 22"))
    assert ask("predict", run, *TEXTS).code == 0
    assert ask("train", recipe, *SETTINGS, "--out", run).code == 0


def test_damaged_metrics_cost_no_more_than_the_damaged_lines(place: Path) -> None:
    tally = run_files.damage_campaign(place, [METRICS], 16, lambda what: what.endswith("train") and "flip" in what)
    assert tally.wrong == []


def test_other_data_is_refused_and_the_same_data_goes_on(place: Path) -> None:
    tally = run_files.data_campaign(place, ("one word", "one word that is new", "the order", "a line more", "a line less"))
    assert tally.wrong == []
    assert tally.detected == tally.recovered == tally.injected == 5
