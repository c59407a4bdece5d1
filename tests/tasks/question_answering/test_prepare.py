"""The task `question_answering`: learned from files, continued, begun with other weights, counted, and refused with reason."""

from __future__ import annotations

import json
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.commands.train import dry_run_lines, train_run
from regard.core.errors import UserError
from regard.data.batching.qa import make_batch
from regard.runs.cost import training_flops
from regard.runs.folder import Run
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import load_recipe
from regard.tasks.question_answering.prepare import prepare
from regard.training.progress import Interrupt
from tests.tasks.explained import explained_as_it_is
from tests.tasks.tiny_questions import CPU, ROWS, SILENT, answerer, quiet, recipe, train_as, trained, write_rows

BRIEF = ["train.steps=8", "train.warmup=1", "train.validate_every=8", "train.checkpoint_every=4"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", ROWS)


def last_weights(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in max((folder / "checkpoints").glob("step-*")).glob("*.safetensors")}


# --------------------------------------------------------------------------------------------------------------- what is learned


def test_words_of_a_text_are_pointed_at() -> None:
    text = "Today, the old red horse eats."
    assert [answerer()(question, text).text for question in ("Which animal?", "Which colour?")] == ["horse", "old red"]


def test_a_run_has_all_that_people_need() -> None:
    run = trained()
    card = (run / "README.md").read_text()
    for told in ("exact match", "F1", f"{len(ROWS)} questions in {len(ROWS)} windows", "nats a window", "the worst first"):
        assert told in card, told
    assert (run / "errors.tsv").read_text().splitlines()[0] == "question\tanswers\tpredicted\tf1\tprobability\tplace"
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["valid_exact"] > 0.9
    assert metrics[-1]["valid_f1"] >= metrics[-1]["valid_exact"]
    assert "model      " in (run / "samples.txt").read_text()


def test_where_there_is_no_answer_none_is_given() -> None:
    found = answerer(True)
    assert found("Which colour?", "Today, the cow eats.") == ("", 0, 0, *found("Which colour?", "Today, the cow eats.")[3:])
    assert found("Which colour?", "Today, the blue cow eats.").text == "blue"
    forced = answerer(True, "data.unanswerable=false")("Which colour?", "Today, the cow eats.")
    assert forced.text
    assert answerer(True, "data.threshold=100")("Which colour?", "Today, the cow eats.").text  # nothing is ever so sure


def test_the_card_keeps_the_two_kinds_of_questions_apart() -> None:
    card = (trained(True) / "README.md").read_text()
    assert "- with answer" in card
    assert f"{2 * len(SILENT)} questions" in card


def test_what_the_data_looks_like_is_said(tmp_path: Path) -> None:
    beside = {"question": "Which animal?", "context": "a cat", "answers": [{"text": "cat", "start": 1}]}
    long = {"question": "Which " * 20, "context": "cat " * 90, "answers": [{"text": "cat " * 40, "start": 0}]}
    data = write_rows(tmp_path / "rows.jsonl", [*ROWS, *SILENT, beside, long])
    told: list[str] = []
    prepare(recipe(data, f"data.test={data}", "data.unanswerable=true"), None, told.append)
    text, total = "\n".join(told), len(ROWS) + len(SILENT) + 2
    assert f"train: {total} questions about " in text
    assert f"{len(SILENT)} of them without an answer" in text
    assert "train: 1 answers stand a little beside their start" in text
    assert "train: 1 questions are longer than data.maximum_question=6 tokens and are cut" in text
    assert "train: 1 answers are whole in no window of 24 tokens" in text
    assert f"warning: {total} of {total} test questions are also in train" in text


# ----------------------------------------------------------------------------------------------------------- continued and begun


def test_a_stopped_run_goes_on_to_the_same_weights(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = recipe(rows, *BRIEF, "model.dropout=0.1")
    train_as(chosen, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT)))
        assert train_as(chosen, tmp_path / "parts").progress.step < 8
    assert train_as(chosen, tmp_path / "parts").progress.step == 8
    assert last_weights(tmp_path / "parts") == last_weights(tmp_path / "whole")


def test_a_run_goes_on_from_another_with_its_body_and_its_head(rows: Path, tmp_path: Path) -> None:
    data = [
        f"data.train={rows}",
        f"data.valid={rows}",
        "data.maximum_question=6",
        "data.window=0",
        "data.stride=0",
        "model.dropout=0.2",
    ]
    chosen = load_recipe_to_train("finetune-answer", [f"task.init_from={trained()}", *data])
    assert (chosen.model.width, chosen.model.dropout, chosen.text.tokenizer) == (32, 0.2, "word")
    mine = prepare(chosen, None, quiet).model().state_dict()
    for name, tensor in Run.open(trained()).weights().tensors("model").items():
        assert torch.equal(mine[name], tensor), name


def test_answers_are_part_of_the_data(rows: Path, tmp_path: Path) -> None:
    train_as(recipe(rows, *BRIEF), tmp_path / "run")
    other = [row | {"answers": [{"text": row["context"][:2], "start": 0}]} for row in ROWS]
    write_rows(rows, other)
    with pytest.raises(UserError, match=r"the training data is not what .* was begun with"):
        train_as(recipe(rows, *BRIEF, "train.steps=9"), tmp_path / "run")


# ----------------------------------------------------------------------------------------------------------------------- the cost


def test_operations_are_those_that_torch_counts(rows: Path) -> None:
    wide = ["model.width=96", "model.feedforward=384"]  # torch does not count attention on a CPU
    prepared = prepare(recipe(rows, *wide), None, quiet)
    lengths = prepared.train.ids.lengths
    batch = make_batch(prepared.train, np.flatnonzero(lengths == round(lengths.mean())))
    with FlopCounterMode(display=False) as counted:
        prepared.objective()(prepared.model().train(), batch).total.backward()
    assert training_flops(prepared, batch.tokens) == pytest.approx(counted.get_total_flops(), rel=0.05)


def test_a_plan_and_a_tree(rows: Path) -> None:
    lines = dry_run_lines(recipe(rows), CPU, quiet)
    assert lines[0] == f"parameters        {sum(p.numel() for p in answerer().model.parameters()):,}"
    assert lines[3].startswith("windows           about ")
    assert explained_as_it_is(trained())["parts"]


# ---------------------------------------------------------------------------------------------------------------------- refusals

REFUSED: list[tuple[list[Any], list[str], str]] = [
    (SILENT, [], f"has no answer, nor have {len(SILENT) - 1} more. Set data.unanswerable=true"),
    (ROWS, ["data.window=40"], "data.window=40 is more than model.maximum_length=32"),
    (ROWS, ["data.window=9"], "a window of 9 tokens has no room for a question of data.maximum_question=6"),
    (ROWS, ["data.stride=16"], "data.stride=16 of its tokens"),
    (ROWS, ["data.stride=25"], "data.stride=25 is more than a window of 24"),
    (ROWS, ["data.compare=true"], "data.compare=true needs a third segment, but model.segments=2"),
    (ROWS, ["data.train="], "data.train is empty; give SQuAD's .json"),
    (ROWS, ["text.tokenizer=public"], "text.tokenizer=public is for runs that begin"),
    (ROWS, ["model.family=gpt"], "model.family=gpt is not known for task.name=question_answering"),
    (
        [*SILENT, {"question": "Which?", "context": "\u200b", "answers": []}],
        ["data.unanswerable=true", "text.tokenizer=wordpiece", "text.size=60"],
        "there is nothing in the context",
    ),
]


@pytest.mark.parametrize(("data", "settings", "told"), REFUSED, ids=[told for *_, told in REFUSED])
def test_what_cannot_be_learned_is_refused_before_anything_is_written(
    data: list[Any], settings: list[str], told: str, tmp_path: Path
) -> None:
    where = write_rows(tmp_path / "rows.jsonl", data)
    with pytest.raises(UserError) as caught:
        train_run(recipe(where, *settings), tmp_path / "run", CPU, quiet)
    assert told in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["bert-answer", "finetune-answer"])
def test_the_recipes_are_for_this_task(name: str) -> None:
    chosen = load_recipe(name)
    assert chosen.task.name == "question_answering"
    assert f"regard train {name}" in chosen.recipe.command
