"""`regard.register` and `--plugin`: names that are taken, files that are wrong, and what a recipe remembers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import regard
from regard.core.errors import UserError
from regard.metrics import PLUGIN_METRICS
from regard.model.visibility import window
from regard.model.visibility.parse import PATTERNS, PATTERNS_WITH_NUMBERS, parse_visibility
from regard.runs.plugins import REGISTERED, check_plugins, load_plugin, plugins_used
from regard.runs.recipe import load_recipe
from regard.runs.task import TASKS
from tests.command import refused, tiny
from tests.command import regard as command


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What a test registers is gone after it."""
    tables: list[dict] = [REGISTERED, PATTERNS, PATTERNS_WITH_NUMBERS, PLUGIN_METRICS]
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before):
        table.clear()
        table.update(old)


def test_a_pattern_is_parsed_once_it_is_registered() -> None:
    with pytest.raises(UserError, match=r"no pattern 'near'"):
        parse_visibility("near")
    regard.register.visibility("near", window(2))
    regard.register.visibility("within-reach", lambda radius: window(radius))
    assert parse_visibility("near") == window(2)
    assert parse_visibility("causal & within-reach(3)") == parse_visibility("causal & window(3)")


TAKEN = {
    "mixer": lambda: regard.register.mixer("softmax", dict),
    "visibility": lambda: regard.register.visibility("bigbird", window(1)),
    "family": lambda: regard.register.family(regard.models.find("gpt")),
    "task": lambda: regard.register.task(TASKS["translation"]),
    "objective": lambda: regard.register.objective("classification", dict, dict, tasks=[]),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_a_name_that_is_taken_is_refused(kind: str) -> None:
    with pytest.raises(UserError, match=f"there is a {kind} '.*' already"):
        TAKEN[kind]()


def test_names_and_tasks_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match=r"cannot be called 'my pattern'"):
        regard.register.visibility("my pattern", window(1))
    with pytest.raises(UserError, match=r"no task 'translate'.*did you mean 'translation'"):
        regard.register.metric("mine", lambda outputs, test: 0.0, tasks=["translate"])


def test_a_recipe_remembers_the_plugins_it_uses() -> None:
    regard.register.visibility("near", window(2))
    assert load_recipe("translate").recipe.plugins == ()
    assert load_recipe("translate", ["model.visibility=causal & near"]).recipe.plugins == (Path(__file__).name,)
    assert plugins_used({"model": {"visibility": "nearly"}}) == []
    check_plugins([Path(__file__).name], "a recipe")
    with pytest.raises(UserError, match=r"a recipe needs the plugin other.py, which is not loaded; add --plugin FOLDER/other.py"):
        check_plugins(["other.py"], "a recipe")


def test_importing_a_file_that_registers_is_as_good_as_loading_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_near.py").write_text("import regard\nregard.register.visibility('near', regard.attention.window(2))\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("my_near")
    assert load_recipe("translate", ["model.visibility=near"]).recipe.plugins == ("my_near.py",)


def test_a_plugin_is_run_once(tmp_path: Path) -> None:
    path = tmp_path / "near_once.py"
    path.write_text("import regard\nregard.register.visibility('near', regard.attention.window(2))\n")
    regard.plugin(path)
    load_plugin(path)
    assert REGISTERED["visibility", "near"] == "near_once.py"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("broken.py", "import regard\n1 / 0\n", "failed in line 2: ZeroDivisionError"),
        ("typo.py", "def f(:\n", "failed: SyntaxError"),
        ("absent.py", "import no_such_module\n", "failed in line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("empty.py", "x = 1\n", "registers nothing"),
        ("notes.txt", "x = 1\n", "is not a Python file"),
        ("taken.py", "import regard\nregard.register.visibility('full', None)\n", "there is a visibility 'full' already"),
    ],
)
def test_a_wrong_plugin_is_refused_in_a_sentence(name: str, text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    refused(command("train", tiny(), "--dry-run", "--plugin", tmp_path / name), told)


def test_a_plugin_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refused(command("train", tiny(), "--plugin", tmp_path / "none.py"), "none.py does not exist", "regard.register")
