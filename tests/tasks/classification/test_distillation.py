"""A student begins as its teacher would have it, learns what that says, and in the end stands beside it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.labels import Labels
from regard.runs.folder import Run
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import load_recipe
from regard.tasks.classification.distillation import Comparison, Distilled, Side, Teacher, layers
from regard.tasks.classification.predict import LABELS, TextClassifier
from regard.tasks.classification.prepare import prepare
from regard.tasks.registry import open_run
from regard.training.progress import Interrupt
from tests.tasks.test_adopt_classifier import folder as public_folder
from tests.tasks.tiny_labels import PAIRS, ROWS, quiet, train_as, write_rows
from tests.tasks.tiny_teacher import lesson, teacher


def labeller(run: Path) -> TextClassifier:
    found = open_run(run, "cpu")
    assert isinstance(found, TextClassifier)
    return found


def weights(run: Path) -> dict[str, torch.Tensor]:
    return Run(run).weights(quiet).tensors("model")


# ---------------------------------------------------------------------------------------------------------- how it begins


def test_layers_are_those_that_distilbert_took() -> None:
    assert layers(12, 6) == [0, 2, 4, 7, 9, 11]  # Sanh et al.'s script, for BERT
    assert layers(6, 3) == [0, 2, 5]
    assert layers(12, 1) == [0]


@given(st.integers(1, 48), st.data())
def test_layers_rise_evenly_from_the_first_to_the_last(of: int, data: st.DataObject) -> None:
    chosen = layers(of, data.draw(st.integers(1, of)))
    assert chosen[0] == 0
    assert len(chosen) == 1 or chosen[-1] == of - 1
    gaps = [b - a for a, b in pairwise(chosen)]
    assert all(gap >= 1 for gap in gaps)
    assert not gaps or max(gaps) - min(gaps) <= 1
    assert layers(of, of) == list(range(of))


@pytest.mark.parametrize("family", ["bert", "gpt"])
def test_a_student_begins_with_layers_of_its_teacher(family: str) -> None:
    run = teacher(family)
    prepared = prepare(lesson(f"model.family={family}", master=run), None, quiet)
    own, theirs = prepared.model().state_dict(), weights(run)
    assert prepared.recipe.model.layers == 1
    assert own.keys() < theirs.keys()
    assert all(torch.equal(own[name], theirs[name]) for name in own)  # of two layers the first


def test_a_student_of_as_many_layers_is_its_teacher() -> None:
    prepared = prepare(lesson("model.layers=2"), None, quiet)
    validation = prepared.validator(prepared.objective())(prepared.model().eval())
    assert validation.metrics["agrees"] == 1
    assert validation.metrics["accuracy"] == 1


def test_a_student_may_begin_by_chance_with_any_body() -> None:
    small = ["objective.inherit=false", "objective.cosine=0", "model.width=8", "model.feedforward=16"]
    prepared = prepare(lesson(*small), None, quiet)
    model = prepared.model()
    assert model.body.config.width == 8
    assert prepared.objective()(model, prepared.source(packed=False).batch(prepared.source(packed=False).plan(0)[0], 0)).total > 0


def test_a_student_may_begin_with_another_run(tmp_path: Path) -> None:
    train_as(lesson("train.steps=2"), tmp_path / "small")
    chosen = lesson(f"task.init_from={tmp_path / 'small'}", "objective.inherit=false")
    own, begun = prepare(chosen, None, quiet).model().state_dict(), weights(tmp_path / "small")
    assert chosen.model.layers == 1
    assert all(torch.equal(own[name], begun[name]) for name in own if name.startswith("body."))


# --------------------------------------------------------------------------------------------------------- how it learns


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object]:
    folder = tmp_path_factory.mktemp("student") / "run"
    outcome = train_as(lesson(f"data.test={teacher().parent / 'rows.tsv'}"), folder)
    return folder, outcome.result


def test_what_the_teacher_knows_is_learned_without_any_label(tmp_path: Path) -> None:
    bare = tmp_path / "more.txt"
    bare.write_text("".join(f"{text}\n\n" for text, _ in ROWS), "utf-8")
    longer = ["train.steps=120", "train.validate_every=120", "train.checkpoint_every=120"]
    chosen = lesson("data.train=", f"data.unlabelled={bare}", "objective.inherit=false", "objective.cosine=0", *longer)
    outcome = train_as(chosen, tmp_path / "run")
    assert outcome.prepared.amounts()["train"] == "72 texts, 2 labels, 72 of them without any"
    assert labeller(tmp_path / "run")([text for text, _ in ROWS]) == [label for _, label in ROWS]


def test_labelled_and_unlabelled_texts_are_learned_together(tmp_path: Path) -> None:
    more = write_rows(tmp_path / "more.tsv", [(text,) for text, _ in ROWS[:10]])
    prepared = prepare(lesson(f"data.unlabelled={more}", "data.limit=20"), None, quiet)
    assert len(prepared.train) == 30
    assert prepared.train.labels[20:].tolist() == [-1] * 10
    assert prepared.train.ids[20].tolist() == prepared.train.ids[0].tolist()
    same = prepare(lesson("data.limit=20"), None, quiet)
    assert same.fingerprints()["train"] != prepared.fingerprints()["train"]


def test_the_teacher_is_not_kept_with_its_student(student: tuple[Path, object]) -> None:
    folder, _ = student
    assert weights(folder).keys() < weights(teacher()).keys()
    before = Teacher.of(str(teacher())).digest()
    assert labeller(folder)(["the big dog is not nice"]) == ["bad"]
    assert Teacher.of(str(teacher())).digest() == before


def test_a_student_is_used_after_its_teacher_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.symlink_to(teacher())
    data = teacher().parent / "rows.tsv"
    train_as(lesson(f"objective.teacher={gone}", f"data.test={data}"), tmp_path / "run")
    gone.unlink()
    assert labeller(tmp_path / "run")("the big dog is not nice") == "bad"


def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = lesson("model.dropout=0.1", "train.checkpoint_every=7")
    train_as(chosen, tmp_path / "straight")
    calls = iter(range(1000))
    with monkeypatch.context() as patched:
        patched.setattr(Interrupt, "__bool__", lambda self: next(calls) >= 10)
        stopped = train_as(chosen, tmp_path / "stopped")
    assert 0 < stopped.progress.step < 30
    train_as(chosen, tmp_path / "stopped")
    one, other = weights(tmp_path / "straight"), weights(tmp_path / "stopped")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_is_not_continued_with_another_teacher(tmp_path: Path) -> None:
    master = tmp_path / "master"
    master.symlink_to(teacher())
    train_as(lesson(f"objective.teacher={master}", "train.steps=2"), tmp_path / "run")
    train_as(lesson("model.layers=2", "train.steps=2"), tmp_path / "other")
    master.unlink()
    master.symlink_to(tmp_path / "other")
    with pytest.raises(UserError, match="training data is not what"):
        train_as(lesson(f"objective.teacher={master}", "model.layers=1", "train.steps=4"), tmp_path / "run")


# ------------------------------------------------------------------------------------------------------- what is reported


def test_both_stand_side_by_side(student: tuple[Path, object]) -> None:
    folder, result = student
    assert isinstance(result, Distilled)
    found = result.as_dict()["distillation"]
    sizes = {side: sum(w.numel() for w in weights(run).values()) for side, run in (("teacher", teacher()), ("student", folder))}
    assert {side: found[side]["parameters"] for side in sizes} == sizes
    assert found["student"]["accuracy"] == result.classified.scores.accuracy
    assert found["accuracy_kept"] == found["student"]["accuracy"] / found["teacher"]["accuracy"]
    assert found["times_as_fast"]["cpu"] > 0
    assert json.loads(json.dumps(found)) == found
    card = (folder / "README.md").read_text("utf-8")
    assert all(f"- {line}" in card for line in result.comparison.lines())


def test_a_comparison_by_hand() -> None:
    made = Comparison(
        Side("runs/teacher", 6_000_000, 0.96, {"cuda": 9000.0, "cpu": 100.0}),
        Side("runs/student", 3_000_000, 0.94, {"cuda": 17000.0, "cpu": 190.0}),
        {"cuda": 1.9, "cpu": 1.85},
    )
    faster = "1.90 times as fast on cuda, 1.85 times as fast on cpu"
    assert made.lines() == [
        "teacher  runs/teacher: 6,000,000 parameters, 24.0 MB, accuracy 96.00%, 9,000 texts/s on cuda, 100 texts/s on cpu",
        "student  runs/student: 3,000,000 parameters, 12.0 MB, accuracy 94.00%, 17,000 texts/s on cuda, 190 texts/s on cpu",
        f"the student keeps 97.9% of the accuracy with 50.0% of the parameters, {faster}",
    ]


def test_the_teachers_pass_is_counted_among_the_operations() -> None:
    taught, alone = (prepare(lesson(*more), None, quiet) for more in ([], ["model.layers=2"]))
    tree, twin = taught.example()[0], alone.example()[0]
    own = twin.flops - twin.children[-1].flops  # the twin without its teacher is that teacher
    assert taught.teacher is not None
    assert tree.children[-1].flops == own // 3
    assert tree.parameters == sum(w.numel() for w in taught.model().parameters())


# ------------------------------------------------------------------------------------------------------ any kind of teacher


def test_pairs_are_taught_too(tmp_path: Path) -> None:
    master = teacher(pairs=True)
    bare = tmp_path / "more.txt"
    bare.write_text("".join(f"{first}\t{second}\n" for first, second, _ in PAIRS[:5]), "utf-8")
    prepared = prepare(lesson(f"data.unlabelled={bare}", master=master), None, quiet)
    assert len(prepared.train) == len(PAIRS) + 5
    assert prepared.train.seconds[-5:].tolist() == prepared.train.seconds[:5].tolist()


def test_a_public_folder_teaches_with_its_own_vocabulary_and_labels(tmp_path: Path) -> None:
    _, _, public = public_folder("bert", tmp_path / "public")
    names = Teacher.of(str(public)).labels.names
    data = write_rows(
        tmp_path / "rows.tsv", [(text, names[n % len(names)]) for n, text in enumerate(["ab cd", "a", "abcd ab"] * 4)]
    )
    chosen = lesson(
        f"objective.teacher={public}", f"data.train={data}", f"data.valid={data}", f"data.test={data}", "train.steps=2"
    )
    outcome = train_as(chosen, tmp_path / "run")
    assert Labels.load(tmp_path / "run" / LABELS).names == names
    assert isinstance(outcome.result, Distilled)
    again = load_recipe_to_train(str(tmp_path / "run" / "recipe.toml"), [])
    assert again == load_recipe(str(tmp_path / "run" / "recipe.toml"))
