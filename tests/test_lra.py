"""The benchmarks of the arena and of what attention cannot: what is typed, what is kept of earlier trainings, what is shown."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import limits, lra, lra_exams, lra_small, measure
from benchmarks.lra_exams import EXAMS, SMALL_VARIANTS, VARIANTS, chosen, examine, examine_small, files_of
from benchmarks.lra_table import CHANCE, PUBLISHED, small_tables, tables
from benchmarks.render import document
from regard.core.errors import UserError
from regard.data.lra import draw_sequences
from regard.runs.recipe import load_recipe

TINY = [
    *("model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16", "model.dropout=0", "train.precision=fp32"),
    *("train.steps=2", "train.warmup=1", "train.validate_every=2", "train.checkpoint_every=2", "train.tokens_per_batch=512"),
]


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("regard.training.logging.draw_curves", lambda *_: None)
    return tmp_path / "results"


def found(seed: int, accuracy: float = 0.4, given: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "seed": seed,
        "accuracy": accuracy,
        "one_answer": 0.17,
        "validation_loss": 1.0,
        "steps": 10,
        "seconds": 5.0,
        "steps_per_second": 2.0,
        "peak_bytes": 3_000_000_000,
        "parameters": 1234,
        "trained_on": "7 texts, 10 labels",
        "tokens_per_batch": 64,
        "given": list(given),
    }


def recorded(folder: Path, name: str = "lra") -> dict[str, Any]:
    (path,) = folder.glob(f"{name}.*.json")
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def test_what_is_typed() -> None:
    wish = lra.Wish.read(
        ["listops", "pixels", "variants=full,window", "seeds=4,5", "at_once=2", "train.steps=7", "model.width=8"]
    )
    assert (wish.tasks, wish.variants, wish.seeds, wish.at_once) == (("listops", "pixels"), ("full", "window"), (4, 5), 2)
    assert wish.settings == ("train.steps=7", "model.width=8")
    assert lra.Wish.read([]).variants == tuple(VARIANTS)
    assert lra.Wish.read([]).seeds == (1, 2, 3)


def test_trainings_are_kept_by_seed_and_settings(results: Path) -> None:
    lra.record("listops", "full", found(1, 0.3))
    lra.record("text", "full", found(1, 0.6))
    lra.record("listops", "full", found(2, 0.4))
    lra.record("listops", "full", found(1, 0.5))
    data = recorded(results)["data"]
    assert [(run["seed"], run["accuracy"]) for run in data["listops"]["full"]] == [(1, 0.5), (2, 0.4)]
    assert list(data) == ["listops", "text"]
    lra.record("listops", "full", found(3, 0.9, ("train.steps=9",)))
    assert [run["seed"] for run in recorded(results)["data"]["listops"]["full"]] == [3]  # trained otherwise, not to be averaged


def test_the_table_has_ours_beside_theirs(results: Path) -> None:
    for seed, accuracy in ((1, 0.30), (2, 0.40)):
        lra.record("listops", "full", found(seed, accuracy))
    lra.record("listops", "window", found(1, 0.171))
    (table,) = recorded(results)["tables"]
    full, window = table["rows"]
    assert table["title"] == "listops (one answer for all: 17%)"
    assert full[:7] == ["full", "35.00 ±7.07", "2", "36.37", "38.37", "2.0", "3.00 GB"]
    assert window[:5] == ["window", "17.10", "1", "15.82 (did not learn)", "-"]
    assert "10 steps of 64 tokens, 7 texts, 10 labels" in full[-1]
    shown = document([recorded(results) | {"file": "lra.cpu"}])
    assert "| full | 35.00 ±7.07 | 2 | 36.37 | 38.37 |" in shown
    assert "## Long Range Arena" in shown


def test_published_scores_are_those_of_the_paper() -> None:
    """The arena's own averages, which stand in its table too."""
    averages = {"full": 54.39, "window": 46.06, "bigbird": 55.01, "performer": 51.41, "linear-relu": 50.55}
    for variant, average in averages.items():
        scores = [of[variant].arena for of in PUBLISHED.values()]
        assert sum(score or 0 for score in scores) / 5 == pytest.approx(average, abs=0.01), variant
    assert PUBLISHED.keys() == EXAMS.keys() == CHANCE.keys()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("task", EXAMS)
def test_every_variant_is_a_recipe_of_every_task(task: str, variant: str) -> None:
    exam = EXAMS[task]
    recipe = load_recipe(exam.recipe, [*exam.settings, *exam.short, *chosen(exam, variant)])
    assert recipe.task.name == "classification"


def test_a_task_without_its_files_is_left_out_or_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert files_of(EXAMS["listops"]) == []
    tasks, _ = lra.possible(lra.Wish.read(["variants=full"]))
    assert tasks == ["listops", "pathfinder"]
    with pytest.raises(UserError, match="there is no"):
        lra.possible(lra.Wish.read(["pixels", "variants=full"]))


@pytest.mark.parametrize("variant", ["full", "denoised", "eased"])
def test_one_training_is_examined(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    easier = {"builtin:listops@length=4-6@count=20": 1, "builtin:listops@length=5-9@count=25": 2}
    eased = ("model.pooled_norm=batch",)
    monkeypatch.setitem(EXAMS, "listops", replace(EXAMS["listops"], easier=easier, eased=eased))
    trainings = list[tuple[str, ...]]()
    plain = lra_exams._train
    monkeypatch.setattr(lra_exams, "_train", lambda *given: (trainings.append(tuple(given[1])), plain(*given))[1])
    small = [f"data.{split}=builtin:listops@length=5-12@count=30/{split}" for split in ("train", "valid", "test")]
    seen = examine("listops", variant, 3, [*small, *TINY])
    assert seen["seed"] == 3
    assert seen["steps"] == 2
    assert 0 <= seen["accuracy"] <= 1
    assert seen["parameters"] > 1000
    assert seen["peak_bytes"] > 10**6
    assert {*eased} <= {*seen["given"]} or variant != "eased"
    assert [setting for setting in seen["given"] if setting.startswith("train.steps=")] == ["train.steps=2"]  # and not the exam's
    assert tables({"listops": {variant: [seen]}})[0]["rows"][0][0] == variant
    assert len(trainings) == {"full": 1, "denoised": 2, "eased": 4}[variant]
    began = [any(setting.startswith("task.init_from=") for setting in settings) for settings in trainings]
    assert began == [False, *[True] * (len(began) - 1)]  # each from the last
    assert ("task.name=denoising" in trainings[0]) == (variant != "full")
    if variant == "eased":
        assert [f"data.train={name}/train" in settings for name, settings in zip(easier, trainings[1:])] == [True, True]


def test_runs_are_kept_and_taken_up_again(tmp_path: Path) -> None:
    small = [f"data.{split}=builtin:listops@length=5-12@count=30/{split}" for split in ("train", "valid", "test")]
    first, again = (examine("listops", "full", 3, [*small, *TINY], str(tmp_path / "kept")) for _ in range(2))
    assert (tmp_path / "kept" / "listops-full-3" / "run" / "recipe.toml").is_file()
    assert (first["accuracy"], first["seconds"]) == (again["accuracy"], again["seconds"])  # scored again, not trained
    with pytest.raises(UserError, match=r"begun with other settings: model.width=8 \(was 16\)"):
        examine("listops", "full", 3, [*small, *TINY, "model.width=8"], str(tmp_path / "kept"))


@pytest.mark.parametrize(("error", "raised"), [(UserError("no."), UserError), (ValueError("a bug"), SystemExit)])
def test_what_fails_does_not_take_the_others_with_it(
    error: Exception,
    raised: type[BaseException],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def examined(task: str, variant: str, seed: int, given: list[str], keep: str) -> dict[str, Any]:
        if variant == "window":
            raise error
        return found(seed)

    monkeypatch.setattr(lra, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    monkeypatch.setattr(lra, "examine", examined)
    with pytest.raises(raised, match="failed, with what is said above: listops window"):
        lra.main(["listops", "variants=window,full", "seeds=1"])
    assert list(recorded(results)["data"]["listops"]) == ["full"]
    told = capsys.readouterr().err
    assert str(error) in told
    assert ("Traceback" in told) == isinstance(error, ValueError)


@pytest.mark.parametrize("variant", SMALL_VARIANTS)
def test_the_small_arena_is_examined(variant: str) -> None:
    small = [f"data.{split}=builtin:listops@length=5-12@count=30/{split}" for split in ("train", "valid", "test")]
    seen = examine_small("listops", variant, 3, [*small, *TINY])
    assert (seen["seed"], seen["steps"]) == (3, 2)
    (table,) = small_tables({"listops": {variant: [seen, seen]}})
    assert table["columns"] == ["attention", "accuracy", "seeds", "steps/s", "peak", "parameters", "trained"]
    assert table["rows"][0][0::2][:2] == [variant, "2"]
    assert all(len(row) == len(table["columns"]) for row in table["rows"])


def test_the_small_arena_is_recorded_apart(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lra, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    monkeypatch.setattr(lra_small, "examine_small", lambda task, variant, seed, given: found(seed))
    lra_small.main(["listops", "text", "variants=full,conv", "seeds=1,2"])
    assert [table["title"] for table in recorded(results, "lra_small")["tables"]] == [
        f"{task} (one answer for all: 17.0%)" for task in ("listops", "text")
    ]
    for wrong, says in (("variants=eased", "no variant 'eased'"), ("pixels", "no task 'pixels'"), ("seeds=0", "whole numbers")):
        with pytest.raises(UserError, match=says):
            lra_small.main([wrong])


def test_what_has_no_easier_sets_is_not_eased() -> None:
    with pytest.raises(UserError, match="no easier sets"):
        lra.main(["listops", "variants=eased"])


def test_limits_are_measured_by_length_and_by_depth(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = limits.Limit(
        "parity", "parity@length=8-12@count=60", "parity@length=8-12@count=20", ("parity@length=14-16@count=30",)
    )
    lists = limits.Limit("lists", *("listops@length=4-30@count=60",) * 2, ("listops@length=4-30@count=200",), by_depth=True)
    monkeypatch.setattr(limits, "LIMITS", {"parity": short, "listops": lists})
    limits.main(["seeds=1", *TINY])
    tables_ = recorded(results, "limits")["tables"]
    assert [row[0] for row in tables_[0]["rows"]] == ["parity@length=14-16@count=30"]
    assert tables_[1]["rows"][0][0] == "depth 1"
    assert all(0 <= float(row[1]) <= 100 for table in tables_ for row in table["rows"])


def test_lists_are_parted_by_depth() -> None:
    trees = draw_sequences("builtin:listops@length=4-40@count=300/test")
    parts = limits.by_depth(trees, least=1)
    assert sum(map(len, parts.values())) == 300
    assert all("[" not in example.text[1:] for example in parts["depth 1"])
    assert all("[" in example.text[1:] for example in parts["depth 2"])
