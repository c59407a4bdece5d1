"""Settings that say `auto`: chosen when a run begins, kept when it is continued, on whatever machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from regard.commands.train import dry_run_lines, prepare_run
from regard.runs import init_recipe
from regard.runs.folder import Run
from regard.runs.recipe import builtin_names, load_recipe, named_tables
from regard.tasks.classification import predict, prepare
from regard.training import compile as compilation
from regard.training.logging import read_metrics
from tests.tasks import tiny_labels, tiny_questions, tiny_tags, tiny_text
from tests.tasks.classification import test_rater
from tests.tasks.tiny_text import CPU, TINY, last_weights, quiet, stories, train, write_stories


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return write_stories(tmp_path / "stories.jsonl", stories(60))


def has_bf16(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    for module in (init_recipe, compilation):
        monkeypatch.setattr(module, "multiplies_bf16", lambda device: there)


def test_no_recipe_asks_for_bf16_whatever_the_machine() -> None:
    assert {named_tables(name)["train"].get("precision", "fp32") for name in builtin_names()} == {"fp32", "auto"}


@pytest.mark.parametrize(("there", "expected"), [(False, "fp32"), (True, "bf16")])
def test_the_precision_that_the_machine_is_fast_in(
    there: bool, expected: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_bf16(monkeypatch, there)
    said: list[str] = []
    recipe = load_recipe("gpt", [f"data.train={data}", *TINY, "train.precision=auto"])
    assert prepare_run(recipe, tmp_path / "run", CPU, said.append).recipe.train.precision == expected
    assert any(line.startswith("plan: ") and line.endswith(f"{expected} on cpu") for line in said)
    assert any(f" in {expected}, from a part" in line for line in dry_run_lines(recipe, CPU, quiet))


def test_a_run_keeps_its_precision_on_another_machine(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["train.precision=auto", "train.checkpoint_every=3"]
    has_bf16(monkeypatch, True)
    train(tmp_path / "parts", data, *settings, "train.steps=3", "train.schedule=constant", "train.warmup=2")
    train(tmp_path / "straight", data, *settings, "train.steps=6", "train.schedule=constant", "train.warmup=2")
    has_bf16(monkeypatch, False)
    train(tmp_path / "parts", data, *settings, "train.steps=6", "train.schedule=constant", "train.warmup=2")
    assert Run(tmp_path / "parts").recipe.train.precision == "bf16"
    assert last_weights(tmp_path / "parts") == last_weights(tmp_path / "straight")


def test_what_was_typed_stays_and_is_told_to_be_slow(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has_bf16(monkeypatch, False)
    said: list[str] = []
    recipe = load_recipe("gpt", [f"data.train={data}", *TINY, "train.precision=bf16"])
    assert prepare_run(recipe, tmp_path / "run", CPU, said.append).recipe.train.precision == "bf16"
    assert sum("train.precision=bf16 is emulated on this cpu" in line for line in said) == 1


@pytest.mark.parametrize(
    ("trained", "metric"),
    [
        (tiny_labels.trained, "mcc"),
        (test_rater.trained, "pearson"),
        (tiny_tags.trained, "f1"),
        (lambda: tiny_tags.trained(plain=True), "accuracy"),
        (tiny_questions.trained, "f1"),
        (tiny_text.trained, "nll"),
    ],
)
def test_the_best_weights_are_those_that_do_the_task_best(trained: Callable[[], Path], metric: str) -> None:
    run = Run(trained())
    assert run.recipe.train.best == metric
    measured = [record for record in read_metrics(run.folder / "metrics.jsonl").records if "valid_nll" in record]
    best = max(measured, key=lambda r: (r[f"valid_{metric}"] if metric != "nll" else 0.0, -r["valid_nll"]))
    assert [path.name for path in (run.folder / "checkpoints").glob("best-*")] == [f"best-{best['step']:08d}"]


def test_a_run_that_was_begun_by_its_loss_goes_on_by_it(tmp_path: Path) -> None:
    rows = tiny_labels.write_rows(tmp_path / "rows.tsv", tiny_labels.ROWS)
    settings = ["train.warmup=1", "train.checkpoint_every=2", "train.validate_every=2"]
    tiny_labels.train_as(tiny_labels.recipe(rows, *settings, "train.steps=2", "train.best=nll"), tmp_path / "run")
    outcome = tiny_labels.train_as(tiny_labels.recipe(rows, *settings, "train.steps=4"), tmp_path / "run")
    assert outcome.prepared.recipe.train.best == Run(tmp_path / "run").recipe.train.best == "nll"


def test_mcc_and_pearson_of_validation_are_those_of_a_score() -> None:
    for trained, metric in ((tiny_labels.trained, "mcc"), (test_rater.trained, "pearson")):
        run = Run(trained())
        last = [record for record in read_metrics(run.folder / "metrics.jsonl").records if "valid_nll" in record][-1]
        recipe = run.recipe
        test = replace(recipe, data=replace(recipe.data, test=recipe.data.valid))
        answers = predict.open_scorer(Run(run.folder, "last"), test, CPU)
        score = answers.evaluate(prepare.read_test(test)).as_dict()
        assert last[f"valid_{metric}"] == pytest.approx(score[metric], abs=1e-6)
