"""A command imports what it needs: help, lists and refusals come without torch, predictions without what trains and draws."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

from regard.families import FAMILIES
from regard.objectives import OBJECTIVES
from regard.runs.task import TASKS
from tests.command import trained

SCRIPT = """
import contextlib, io, json, sys
from regard.cli import main
ended = {}
for name, arguments in json.loads(sys.argv[1]).items():
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            main(arguments)
    except SystemExit as stop:
        ended[name] = [stop.code, told.getvalue(), sorted(sys.modules)]
print(json.dumps(ended))
"""
SLOW = {"torch", "numpy", "matplotlib", "PIL", "rich", "tokenizers", "sacrebleu", "huggingface_hub"}
NOT_TO_PREDICT = {"matplotlib", "PIL", "rich", "sacrebleu", "huggingface_hub", "datasets", "fastapi", "sympy"}
NOT_TO_PREDICT |= {"torch._dynamo", "torch._inductor", "torch.distributed.fsdp", "torch.distributed.tensor", "torch.onnx"}


@cache
def ended() -> dict[str, tuple[int, str, set[str]]]:
    """In one fresh process: how commands end, what they tell, and which modules there are by then."""
    run = str(trained())
    commands = {
        "help": ["--help"],
        "help of a verb": ["train", "--help"],
        "recipes": ["recipes"],
        "json": ["recipes", "--json"],
        "verb": ["trian", "translate"],
        "option": ["train", "translate", "--ou", "x"],
        "recipe": ["train", "translat"],
        "section": ["train", "translate", "modle.width=8"],
        "data": ["train", "translate", "data.trian=x"],
        "text": ["train", "translate", "text.sise=8"],
        "train": ["train", "translate", "train.setps=8"],
        "value": ["train", "translate", "train.steps=many"],
        "decode": ["train", "translate", "decode.baem=8"],
        "key": ["explain", "train.warmup"],
        "section of keys": ["explain", "decode"],
        "unknown key": ["explain", "train.wramup"],
        "run": ["predict", run + "x", "a text"],
        "search": ["evaluate", run, "decode.baem=8"],
        "predict": ["predict", run, "the cat sees the dog ."],
    }
    ran = subprocess.run([sys.executable, "-c", SCRIPT, json.dumps(commands)], capture_output=True, text=True, check=True)
    return {name: (code, told, set(modules)) for name, (code, told, modules) in json.loads(ran.stdout).items()}


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("help", 0, "predict"),
        ("help of a verb", 0, "--dry-run"),
        ("recipes", 0, "translate-base"),
        ("json", 0, '"parameters"'),
        ("verb", 2, "'train'"),
        ("option", 2, "--out"),
        ("recipe", 2, "did you mean 'translate'?"),
        ("section", 2, "did you mean 'model'?"),
        ("data", 2, "did you mean 'data.train'?"),
        ("text", 2, "did you mean 'text.size'?"),
        ("train", 2, "did you mean 'train.steps'?"),
        ("value", 2, "must be a whole number"),
        ("decode", 2, "did you mean 'decode.beam'?"),
        ("key", 0, "fraction of all steps"),
        ("section of keys", 0, "decode.beam"),
        ("unknown key", 2, "did you mean 'train.warmup'?"),
        ("run", 2, "does not exist"),
        ("search", 2, "did you mean 'decode.beam'?"),
    ],
)
def test_lists_and_mistakes_do_not_wait_for_torch(name: str, code: int, told: str) -> None:
    exit_code, output, modules = ended()[name]
    assert (exit_code, told in output) == (code, True), output
    assert not SLOW & modules


def test_a_prediction_does_not_wait_for_what_trains_draws_or_compiles() -> None:
    code, output, modules = ended()["predict"]
    assert code == 0, output
    assert "torch" in modules
    assert not NOT_TO_PREDICT & modules


@pytest.mark.parametrize("table", [FAMILIES, OBJECTIVES, TASKS], ids=["families", "objectives", "tasks"])
def test_every_entry_that_is_looked_up_by_name_is_there(table) -> None:
    for name in table:
        assert table[name] is not None
    assert "nothing of the kind" not in table
    with pytest.raises(KeyError):
        table["nothing of the kind"]


def test_every_task_names_families_and_objectives_that_there_are() -> None:
    assert all(task.name == name for name, task in TASKS.items())
    assert {name for task in TASKS.values() for name in task.families()} == set(FAMILIES)
    assert {name for task in TASKS.values() for name in task.objectives} == set(OBJECTIVES)
