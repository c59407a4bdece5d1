"""`train.epochs`: as many steps as the data has batches, known once it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from regard.commands.train import prepare_run
from regard.core.errors import UserError
from regard.runs.folder import Run
from regard.runs.recipe import builtin_names, load_recipe, named_tables
from regard.runs.task import TASKS
from regard.training.config import TrainConfig
from regard.training.logging import read_metrics
from regard.training.optimizers import learning_rate
from tests.tasks.tiny_text import CPU, TINY, last_weights, stories, train, write_stories

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
    validated = [record["step"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl").records if "valid_nll" in record]
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


@pytest.mark.parametrize("name", builtin_names())
def test_steps_and_epochs_can_be_changed_alone_in_every_recipe(name: str) -> None:
    tables = named_tables(name)
    if (
        TASKS[tables["task"].get("name", "translation")].train is not TrainConfig or name == "distil"
    ):  # it asks for its teacher first
        return
    for steps in (1, 2, 30, 10_000_000):
        train = load_recipe(name, [f"train.steps={steps}"]).train
        assert all(0 < learning_rate(train, step) <= train.learning_rate for step in range(1, min(steps, 30) + 1))
    counted = replace(load_recipe(name, ["train.epochs=0.1"]).train, steps=3)  # as they are when the data has been read
    assert 0 < learning_rate(counted, 3) <= counted.learning_rate


def test_a_warm_up_of_a_recipe_is_shortened_and_one_that_is_typed_is_held_to() -> None:
    assert load_recipe("translate").train.warmup_steps == 100
    assert load_recipe("translate", ["train.steps=30"]).train.warmup_steps == 8
    assert load_recipe("translate", ["train.steps=110", "train.warmup=100"]).train.warmup_steps == 100
    with pytest.raises(UserError, match=r"train\.warmup=100 leaves nothing of train\.steps=30"):
        load_recipe("translate", ["train.steps=30", "train.warmup=100"])
    with pytest.raises(UserError, match=r"train\.warmup_limit=0\.0 must be above 0"):
        load_recipe("translate", ["train.warmup_limit=0"])


def test_the_published_schedule_that_ends_in_its_warm_up_is_left_alone() -> None:
    assert load_recipe("lra-retrieval").train.warmup_steps == 8000


def test_a_plan_says_how_long_and_what_was_shortened(data: Path, tmp_path: Path) -> None:
    said: list[str] = []
    recipe = load_recipe(
        "gpt",
        [f"data.train={data}", *TINY, "train.epochs=2", "train.schedule=cosine", "train.warmup=50", "train.warmup_limit=0.25"],
    )
    steps = prepare_run(recipe, tmp_path / "run", CPU, said.append).recipe.train.steps
    plan = next(line for line in said if line.startswith("plan: "))
    assert f"plan: {steps} steps, 2.0 epochs of {steps // 2} batches; {round(steps / 4)} of warm-up" in plan
    assert "(train.warmup=50 is more than 0.25 of the steps)" in plan


def test_a_shortened_run_is_continued_with_more_steps(data: Path, tmp_path: Path) -> None:
    small = ["train.schedule=cosine", "train.warmup=50", "train.warmup_limit=0.25"]
    train(tmp_path / "run", data, *small, "train.steps=4")
    assert train(tmp_path / "run", data, *small, "train.steps=6").progress.step == 6


@pytest.mark.parametrize(
    ("batches", "steps"),
    [
        (7, 140),
        (30, 600),
        (63, 600),
        (200, 600),
        (201, 603),
        (2000, 6000),
    ],  # 20 epochs at most; 600 steps; 3 epochs where that is more
)
def test_little_data_is_gone_through_more_often(batches: int, steps: int) -> None:
    assert TrainConfig(epochs=3, minimum_steps=600).steps_of(batches) == steps


def test_epochs_that_are_typed_are_as_many_as_were_typed(data: Path, tmp_path: Path) -> None:
    assert load_recipe("finetune-classify").train.minimum_steps == 600
    assert load_recipe("finetune-classify", ["train.epochs=3"]).train.minimum_steps == 0
    assert load_recipe("finetune-classify", ["train.steps=30"]).train.minimum_steps == 0
    outcome = train(tmp_path / "run", data, *EPOCHS, "train.minimum_steps=30")
    batches = len(outcome.prepared.source(packed=False).plan(0))
    assert outcome.progress.step == 30 > 2 * batches
    assert train(tmp_path / "run", data, *EPOCHS, "train.epochs=9").progress.step == 9 * batches  # it goes on


@pytest.mark.parametrize("settings", [{}, {"steps": 0}, {"steps": -1}, {"epochs": -1.0}, {"epochs": float("nan")}])
def test_neither_steps_nor_epochs(settings: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"train\.(steps|epochs)="):
        TrainConfig(**settings)  # type: ignore[arg-type]
