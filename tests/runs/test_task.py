"""Every task is one value, found by the name of its package."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import regard.tasks
from regard.core.config import LazyRegistry
from regard.families import FAMILIES
from regard.runs.task import TASKS, Task, lazy

PACKAGES = {path.parent.name for path in Path(regard.tasks.__path__[0]).glob("*/__init__.py")}
LAZY = [field.name for field in dataclasses.fields(Task) if "Callable" in str(field.type)]


def test_tasks_are_the_packages() -> None:
    assert set(TASKS) == PACKAGES
    assert len(TASKS) == len(PACKAGES) >= 13


@pytest.mark.parametrize("name", TASKS)
def test_every_function_that_is_named_is_there(name: str) -> None:
    """A lazy function keeps its place in its closure."""
    task = TASKS[name]
    functions = [getattr(task, field) for field in LAZY] + ([task.trainer.train, task.trainer.estimate] if task.trainer else [])
    for function in functions:
        if function is None or function.__name__ != "call":
            continue
        module, _, attribute = function.__closure__[0].cell_contents.partition(":")
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        assert callable(found)


@pytest.mark.parametrize("name", TASKS)
def test_its_default_family_is_one_that_it_takes(name: str) -> None:
    task = TASKS[name]
    assert task.takes(FAMILIES[task.family])
    assert task.families()[0] == task.family


def test_families_by_capability() -> None:
    assert TASKS["translation"].families() == ["transformer", "bart", "marian", "recurrent", "t5"]
    assert set(TASKS["dialogue"].families()) == {"transformer", "bart", "marian", "t5", "recurrent", "hran"}
    assert set(TASKS["classification"].families()) == {
        *("gpt", "llama", "transformer_xl", "bert", "encoder", "han", "elmo", "perceiver"),
    }
    assert set(TASKS["masked_lm"].families()) == {"bert", "electra", "encoder", "perceiver"}


def test_declarations_need_no_torch() -> None:
    script = "import sys; from regard.runs.task import TASKS; list(TASKS.values()); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_task_can_be_registered() -> None:
    registry = LazyRegistry[Task]({"tagging": "regard.tasks.tagging:TASK"})
    registry.register("mine", dataclasses.replace(TASKS["tagging"], name="mine"))
    assert "mine" in registry
    assert registry["mine"].needs == TASKS["tagging"].needs
    assert list(registry)[-1] == "mine"
    assert "mine" not in TASKS


def test_lazy_imports_when_it_is_called() -> None:
    assert lazy("math:sqrt")(9) == 3
    with pytest.raises(ModuleNotFoundError):
        lazy("regard.no_such:thing")()
