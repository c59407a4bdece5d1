"""The task `classification`: learned from files, on either body, continued, begun with other weights, and refused with reason."""

from __future__ import annotations

import json
import shutil
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.commands.explain import explain_tree
from regard.commands.train import dry_run_lines, train_run
from regard.core.errors import UserError
from regard.data.batching.labelled import make_batch
from regard.runs.cost import training_flops
from regard.runs.folder import Run
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import load_recipe
from regard.tasks.classification.prepare import prepare
from regard.tasks.registry import open_run
from regard.training.progress import Interrupt
from tests.tasks.explained import explained_as_it_is
from tests.tasks.tiny_labels import CPU, PAIRS, ROWS, TINY, labeller, quiet, recipe, train_as, trained, write_rows


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.tsv", ROWS)


def last_weights(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in max((folder / "checkpoints").glob("step-*")).glob("*.safetensors")}


# --------------------------------------------------------------------------------------------------------------- what is learned


@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_a_text_is_judged(family: str) -> None:
    found = labeller(family)
    assert found(["the old cat is not nice today", "the old cat is nice today"]) == ["bad", "good"]
    assert found(ROWS[0][0]) == ROWS[0][1]


@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_a_pair_is_judged_by_which_text_is_which(family: str) -> None:
    found = labeller(family, True)
    assert found([(a, b) for a, b, _ in PAIRS]) == [label for *_, label in PAIRS]
    assert found([(b, a) for a, b, _ in PAIRS]) != [label for *_, label in PAIRS]


def test_a_run_has_all_that_people_need() -> None:
    run = trained()
    assert json.loads((run / "labels.json").read_text()) == {"texts": 1, "labels": ["bad", "good"]}
    card = (run / "README.md").read_text()
    for told in (
        "accuracy",
        "macro F1",
        "MCC",
        "72 texts, 2 labels",
        "nats a text",
        "texts, 0:0",
        "1 layers",
        "word vocabulary of",
    ):
        assert told in card, told
    assert " and 2\n" not in card  # labels are no vocabulary of the text
    assert (run / "errors.tsv").read_text().splitlines()[0] == "text\tlabel\tpredicted\tprobability"
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["valid_accuracy"] > 0.9
    assert any("texts_per_second" in record for record in metrics)
    assert not any("tokens_per_second" in record for record in metrics)
    assert metrics[-1]["valid_nll"] < 0.4
    assert "model      " in (run / "samples.txt").read_text()


def test_what_the_data_looks_like_is_said(tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.tsv", [*ROWS[:12], *[(f"odd {n}", "good") for n in range(60)]])
    told: list[str] = []
    prepare(recipe(train, f"data.test={train}"), None, told.append)
    text = "\n".join(told)
    assert "train: 72 texts: good 91.7%, bad 8.3%; always saying 'good' scores 91.7%" in text
    assert "so accuracy will look too good" in text
    assert "72 of 72 test texts are also in train" in text


def test_rare_classes_can_count_for_more(tmp_path: Path) -> None:
    train = write_rows(
        tmp_path / "train.tsv", [*((f"odd {n}", "good") for n in range(30)), *((f"even {n}", "bad") for n in range(10))]
    )
    plain, even = (prepare(recipe(train, f"objective.balance={how}"), None, quiet).objective() for how in ("none", "weights"))
    assert plain.weights_C is None  # type: ignore[union-attr]
    assert even.weights_C.tolist() == pytest.approx([40 / (2 * 10), 40 / (2 * 30)])  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------------------- continued and sealed


def test_a_stopped_run_goes_on_to_the_same_weights(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = recipe(rows, "train.steps=12", "train.validate_every=6", "train.checkpoint_every=6", "model.dropout=0.1")
    train_as(chosen, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT)))
        assert train_as(chosen, tmp_path / "parts").progress.step < 12
    assert train_as(chosen, tmp_path / "parts").progress.step == 12
    assert last_weights(tmp_path / "parts") == last_weights(tmp_path / "whole")


def test_labels_are_part_of_the_data(rows: Path, tmp_path: Path) -> None:
    chosen = recipe(rows, "train.steps=5", "train.validate_every=5", "train.checkpoint_every=5")
    train_as(chosen, tmp_path / "run")
    write_rows(rows, [(text, {"bad": "evil", "good": "good"}[label]) for text, label in ROWS])
    with pytest.raises(UserError, match=r"the training data is not what .* was begun with"):
        train_as(recipe(rows, "train.steps=6", "train.validate_every=5", "train.checkpoint_every=5"), tmp_path / "run")


def test_labels_are_sealed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    assert "labels.json" in json.loads((run / "data.json").read_text())["seals"]
    kept = (run / "labels.json").read_text()
    (run / "labels.json").write_text(kept.replace("bad", "BAD"))
    with pytest.raises(UserError, match=r"do not fit its labels\.json"):
        open_run(run, "cpu")
    (run / "labels.json").unlink()
    with pytest.raises(UserError, match="There are no labels at"):
        open_run(run, "cpu")


# ------------------------------------------------------------------------------------------------------------ from other weights


def language_model(folder: Path) -> Path:
    text = folder / "text.jsonl"
    text.write_text("".join(json.dumps({"text": text}) + "\n" for text, _ in ROWS))
    small = [
        "data.window=16",
        "data.stride=0",
        "data.valid=",
        "data.test=",
        "text.size=290",
        "model.maximum_length=40",
        "train.steps=10",
    ]
    chosen = load_recipe("gpt", [f"data.train={text}", *small, *(s for s in TINY if s.split("=")[0] not in OWN)])
    train_as(chosen, folder / "gpt")
    return folder / "gpt"


OWN = ("data.test", "text.size", "model.maximum_length", "train.steps", "train.validate_every", "train.checkpoint_every")
BRIEF = ["train.steps=8", "train.warmup=1", "train.validate_every=8", "train.checkpoint_every=8", "train.tokens_per_batch=256"]


def test_a_language_model_becomes_a_classifier_and_that_another(rows: Path, tmp_path: Path) -> None:
    """Its body and vocabulary are taken in the recipe's stead; the head is new. Once begun, the start may be gone."""
    start = language_model(tmp_path)
    data = [f"data.train={rows}", f"data.valid={rows}", "data.test=", *BRIEF]
    chosen = load_recipe_to_train("gpt-classify", [f"task.init_from={start}", "model.dropout=0.2", *data])
    assert (chosen.model.width, chosen.model.dropout, chosen.text.tokenizer) == (24, 0.2, "byte-bpe")
    theirs = Run.open(start).weights().tensors("model")
    mine = prepare(chosen, None, quiet).model().state_dict()
    assert all(torch.equal(mine[f"body.{name}"], tensor) for name, tensor in theirs.items())
    train_as(chosen, tmp_path / "run")
    assert open_run(tmp_path / "run", "cpu")("the cat is nice") in ("good", "bad")  # type: ignore[operator]
    again = load_recipe_to_train("gpt-classify", [f"task.init_from={tmp_path / 'run'}", *data])
    second = prepare(again, None, quiet).model().state_dict()
    first = Run.open(tmp_path / "run").weights().tensors("model")
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items() if name.startswith("body."))
    assert not torch.equal(first["classes.project.weight"], second["classes.project.weight"])
    shutil.rmtree(start)
    assert train_as(chosen, tmp_path / "run").progress.step == 8


def test_a_size_that_is_typed_beside_a_start_is_refused(rows: Path, tmp_path: Path) -> None:
    start = language_model(tmp_path)
    with pytest.raises(UserError, match=r"model\.width=64 cannot be set with task\.init_from="):
        load_recipe_to_train(
            "gpt-classify", [f"task.init_from={start}", "model.width=64", f"data.train={rows}", f"data.valid={rows}"]
        )


# ----------------------------------------------------------------------------------------------------------------------- the cost


@pytest.mark.parametrize(
    "settings", [["objective.language=0.5"], ["objective.language=0"], ["model.family=bert", "objective.language=0"]]
)
def test_operations_are_those_that_torch_counts(settings: list[str], rows: Path) -> None:
    wide = ["model.width=96", "model.feedforward=384"]  # torch does not count attention on a CPU
    prepared = prepare(recipe(rows, *wide, *settings), None, quiet)
    lengths = prepared.train.ids.lengths
    batch = make_batch(prepared.train, (lengths == round(lengths.mean())).nonzero()[0])
    with FlopCounterMode(display=False) as counted:
        prepared.objective()(prepared.model().train(), batch).total.backward()
    assert training_flops(prepared, batch.tokens) == pytest.approx(counted.get_total_flops(), rel=0.05)


def test_a_plan_and_a_tree(rows: Path) -> None:
    lines = dry_run_lines(recipe(rows), CPU, quiet)
    assert lines[0] == f"parameters        {sum(p.numel() for p in labeller().model.parameters()):,}"
    assert lines[3].startswith("texts             about ")
    assert "gpt" in explain_tree("gpt-classify", [])
    parts = {part["name"]: part for part in explained_as_it_is(trained())["parts"]}
    assert list(parts) == ["body", "classes"]
    assert "decoder" in [part["name"] for part in parts["body"]["parts"]]


# ---------------------------------------------------------------------------------------------------------------------- refusals

BAD: list[tuple[list[Any], list[Any], list[str], str]] = [
    ([("a", "x"), ("b", "x")], [("a", "x")], [], "data.train has one label only, 'x'"),
    ([("a", "x"), ("b", "y")], [("a", "x"), ("c", "z")], [], "valid.tsv, line 2: the label 'z' is not one that training knows"),
    ([("a", "x"), ("b", "y")], [("a", "b", "x")], [], "texts found: 2, in training: 1"),
    (
        [("a", "x"), ("b", "y"), ("w " * 30, "x")],
        [("a", "x")],
        [],
        "line 3 is 32 tokens long, its marks counted, but the model has 24",
    ),
    ([("a", "x"), ("b", "y")], [("w " * 30, "x")], [], "data.valid: "),
    (
        [("a", "x"), ("b", "y")],
        [("a", "x")],
        ["data.maximum_tokens=30"],
        "data.maximum_tokens=30 is more than model.maximum_length=24",
    ),
    ([("a", "x"), ("b", "y")], [("a", "x")], ["data.maximum_tokens=3"], "data.maximum_tokens=3 must be 0"),
    ([("a", "x"), ("b", "y")], [("a", "x")], ["model.family=bert", "objective.language=0.5"], "is for model.family=gpt"),
    ([("a", "x"), ("b", "y")], [("a", "x")], ["text.tokenizer=public"], "text.tokenizer=public is for runs that begin"),
    ([("a", "x"), ("b", "y")], [("a", "x")], ["data.columns=a"], "data.columns has 1 names"),
    ([("a", "x"), ("b", "y")], [("a", "x")], ["data.columns=0,0"], "data.columns=0,0 names a column twice"),
    ([("a", "x"), ("b", "y")], [("a", "x")], ["data.train="], "data.train is empty"),
    ([("a", "x"), ("b", "y")], [("a", "x")], ["data.limit=1"], "one label only"),
    (
        [("a", "x"), ("b", "y")],
        [("a", "x")],
        ["model.family=transformer"],
        "model.family=transformer is not known for task.name=classification",
    ),
]


@pytest.mark.parametrize(("train", "valid", "settings", "told"), BAD, ids=[told for *_, told in BAD])
def test_what_cannot_be_learned_is_refused_before_anything_is_written(
    train: list[Any], valid: list[Any], settings: list[str], told: str, tmp_path: Path
) -> None:
    where = write_rows(tmp_path / "train.tsv", train), write_rows(tmp_path / "valid.tsv", valid)
    with pytest.raises(UserError) as caught:
        train_run(recipe(where[0], f"data.valid={where[1]}", *settings), tmp_path / "run", CPU, quiet)
    assert told in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_long_texts_are_cut_where_asked_and_counted(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "rows.tsv", [("a " * 30, "x"), ("b", "y"), ("a " * 100_000, "x")])
    told: list[str] = []
    prepared = prepare(recipe(data, "data.maximum_tokens=10"), None, told.append)
    assert "train: 2 of 3 texts are longer than data.maximum_tokens=10 and are cut" in told
    assert prepared.train.ids.lengths.tolist() == [10, 3, 10]
