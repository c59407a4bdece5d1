"""`train.epochs`: as many steps as the data has batches, known once it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.recipe import load_recipe
from regard.tasks.run import Run
from regard.train.config import TrainConfig
from regard.train.runlog import read_metrics
from regard.train.schedule import learning_rate
from tests.tasks.tiny_text import last_weights, stories, train, write_stories

EPOCHS = ["train.epochs=2", "train.warmup=0.25", "train.validate_every=0", "train.checkpoint_every=0", "train.log_every=1"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return write_stories(tmp_path / "stories.jsonl", stories(60))


def test_epochs_become_steps_and_are_validated_each(data: Path, tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", data, *EPOCHS)
    batches = len(outcome.prepared.source(packed=False).plan(0))
    assert batches > 1
    assert outcome.progress.step == 2 * batches
    assert Run(tmp_path / "run").recipe.train.steps == 2 * batches
    validated = [record["step"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl") if "valid_nll" in record]
    assert validated == [batches, 2 * batches]


def test_the_same_command_has_nothing_left_to_do_and_more_epochs_go_on(data: Path, tmp_path: Path) -> None:
    steps = train(tmp_path / "run", data, *EPOCHS).progress.step
    assert train(tmp_path / "run", data, *EPOCHS).progress.step == steps
    assert train(tmp_path / "run", data, *EPOCHS, "train.epochs=3").progress.step == steps * 3 // 2


def test_epochs_are_the_steps_they_are(data: Path, tmp_path: Path) -> None:
    steps = train(tmp_path / "epochs", data, *EPOCHS).progress.step
    train(tmp_path / "steps", data, *EPOCHS[1:], f"train.steps={steps}")
    assert last_weights(tmp_path / "epochs") == last_weights(tmp_path / "steps")


def test_what_is_typed_takes_the_place_of_the_other() -> None:
    assert load_recipe("translate", ["train.epochs=2"]).train.steps == 0
    assert load_recipe("translate", ["train.steps=6", "train.warmup=2"]).train.epochs == 0


def test_warm_up_as_a_share_of_all_steps() -> None:
    config = TrainConfig(steps=200, warmup=0.1, schedule="linear", learning_rate=1.0)
    assert [learning_rate(config, step) for step in (10, 20)] == [0.5, 1.0]
    assert learning_rate(config, 200) == pytest.approx(1 / 181)


@pytest.mark.parametrize("settings", [{}, {"steps": 0}, {"steps": -1}, {"epochs": -1.0}, {"epochs": float("nan")}])
def test_neither_steps_nor_epochs(settings: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"train\.(steps|epochs)="):
        TrainConfig(**settings)  # type: ignore[arg-type]
