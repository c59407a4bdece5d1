"""The documents are true: their Python runs, and every file, test, recipe and command they name exists."""

from __future__ import annotations

import ast
import doctest
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import typer

from regard.cli import app
from regard.cli.shared import SETTINGS
from regard.commands.reference import find_keys, is_key
from regard.commands.train import train_run
from regard.families.published_sizes import SIZES
from regard.runs.footprint import sized
from regard.runs.recipe import builtin_names, load_recipe, typed_task
from regard.runs.task import TASKS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS_RUN = "<!-- needs runs/demo -->"
ROWS = [
    f"{part}{n}" for part, last in {"R": 4, "S": 9, "T": 10, "P": 7, "V": 7, "E": 4, "L": 6}.items() for n in range(1, last + 1)
]
named = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


class Block(NamedTuple):
    line: int
    language: str
    needs_run: bool
    text: str


def blocks(document: Path) -> Iterator[Block]:
    """The fenced blocks, and whether the line before says that they need a run."""
    text = document.read_text("utf-8")
    for found in re.finditer(rf"^({NEEDS_RUN}\n)?```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(text.count("\n", 0, found.start(3)) + 1, found[2], bool(found[1]), found[3])


def spans(text: str) -> list[str]:
    """What stands in `back-quotes`, outside fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


# -------------------------------------------------------------------------------------------------------------------- Python


def execute(block: Block, names: dict[str, Any], document: Path) -> None:
    """A block with prompts must print what it says it prints; one without must run."""
    if ">>>" not in block.text:
        exec(compile("\n" * (block.line - 1) + block.text, str(document), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, document.name, str(document), block.line - 1)
    told = io.StringIO()
    result = doctest.DocTestRunner(verbose=False).run(test, out=told.write, clear_globs=False)
    names.update(test.globs)  # a doctest works on a copy
    assert result.attempted
    assert not result.failed, told.getvalue()


@pytest.fixture(scope="module")
def place_with_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which runs/demo is a run of the demo's recipe, twenty steps old and good for nothing."""
    place = tmp_path_factory.mktemp("docs")
    small = ["data.limit=400", "data.test=", "train.steps=20", "train.warmup=5"]
    train_run(load_recipe("translate", small), place / "runs" / "demo", torch.device("cpu"), lambda line: None)
    return place


PYTHON = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("tour.md", "decoding.md", "guides/python.md"))]


@pytest.mark.parametrize("document", PYTHON, ids=lambda path: path.name)
def test_python_runs(document: Path, place_with_a_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place_with_a_run)
    found = [block for block in blocks(document) if block.language == "python"]
    assert found
    names: dict[str, Any] = {}
    for block in found:
        if not block.needs_run:  # these build on each other
            execute(block, names, document)
    for block in found:
        if block.needs_run:  # and these stand alone
            execute(block, {}, document)


@pytest.mark.parametrize("document", PYTHON, ids=lambda path: path.name)
def test_python_that_needs_a_run_says_so(document: Path) -> None:
    for block in blocks(document):
        if block.language == "python":
            assert block.needs_run == ("runs/" in block.text), f"{document.name}, line {block.line}"


def test_python_is_nowhere_else() -> None:
    elsewhere = {document for document in DOCUMENTS for block in blocks(document) if block.language == "python"}
    assert elsewhere == {*PYTHON, ROOT / "CONTRIBUTING.md"}  # which tests/test_contributing.py tries


def test_a_wrong_line_of_a_document_is_seen() -> None:
    with pytest.raises(AssertionError, match="Expected"):
        execute(Block(1, "python", False, ">>> 1 + 1\n3\n"), {}, ROOT / "README.md")
    with pytest.raises(ZeroDivisionError):
        execute(Block(1, "python", False, "1 / 0\n"), {}, ROOT / "README.md")


# --------------------------------------------------------------------------------------------------------------------- files


def defined(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}


def missing(word: str) -> str | None:
    """What a word names and the repository does not have; words that name no file of ours are let through."""
    path, _, function = word.partition("::")
    if not re.fullmatch(r"(src|tests|docs|benchmarks|examples)/[\w./-]*|[A-Z]\w*\.md|Makefile|pyproject\.toml", path):
        return None
    if not (ROOT / path).exists():
        return f"{path} does not exist"
    return f"{path} has no {function}" if function and function not in defined(ROOT / path) else None


@named
def test_files_exist(document: Path) -> None:
    text = document.read_text("utf-8")
    faults = [fault for span in spans(text) for word in span.split() if (fault := missing(word))]
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    faults += [f"the link {link} leads nowhere" for link in links if not (document.parent / link).exists()]
    assert not faults


def test_a_missing_file_or_test_is_seen() -> None:
    assert missing("src/regard/model/attention.py") is None
    assert missing("src/regard/model/atention.py") == "src/regard/model/atention.py does not exist"
    assert missing("tests/test_docs.py::test_that_is_not_there") == "tests/test_docs.py has no test_that_is_not_there"
    assert missing("runs/demo") is None


def test_the_tree_in_contributing_is_the_tree() -> None:
    """Every folder and file it shows is there, and it shows every folder of the package and every file at its top."""
    (tree,) = [block.text for block in blocks(ROOT / "CONTRIBUTING.md") if block.text.startswith("src/regard/\n")]
    top, shown = "", set()
    for line in tree.splitlines():
        name = line.split()[0]
        top = name if not line.startswith(" ") else top
        shown.add(name if not line.startswith(" ") else top + name)
    assert not [name for name in shown if not (ROOT / name).exists()]
    package = [path for path in (ROOT / "src" / "regard").iterdir() if not path.name.startswith(("__", "."))]
    real = {f"src/regard/{path.name}/" if path.is_dir() else f"src/regard/{path.name}" for path in package} - {
        "src/regard/py.typed"
    }
    assert {name for name in shown if name.startswith("src/regard/")} == real | {"src/regard/"}


# ------------------------------------------------------------------------------------------------------------------ commands

PLACEHOLDER = re.compile(r"[A-Z_]+")


def command_lines(document: Path) -> Iterator[str]:
    text = document.read_text("utf-8")
    shell = [line for block in blocks(document) if block.language == "sh" for line in block.text.splitlines()]
    for line in [*shell, *spans(text)]:
        if re.match(r"(regard|make) [a-z]", line):
            yield line


def check_command(line: str, alone: bool = False) -> None:
    """Parse as the command line would, without doing anything; then build the recipe with its settings.

    A line with a plugin is checked in a process of its own: what a plugin registers stays registered.
    """
    program, verb, *arguments = shlex.split(line, comments=True)
    if "--plugin" in arguments and re.search(r"--plugin my_\w+\.py", line):
        return  # a file that tests/test_contributing.py writes, with this line's command
    if "--plugin" in arguments and not alone:
        script = "import sys; from tests.test_docs import check_command; check_command(sys.argv[1], alone=True)"
        ran = subprocess.run([sys.executable, "-c", script, line], cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return
    if program == "make":
        assert re.search(rf"^{verb}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), f"make has no {verb}"
        return
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert verb in commands, f"regard has no {verb}"
    if not arguments:
        return  # the verb's name in a sentence
    context = commands[verb].make_context(verb, list(arguments))
    values = context.params
    run = Path(str(values.get("run") or "")).name  # runs are called like their recipes
    recipe = values.get("recipe") or values.get("target") or (run if run in builtin_names() else "translate")
    settings = values.get("settings") or context.meta.get(SETTINGS, [])
    if verb in ("import", "predict", "generate") and (task := typed_task(settings)):
        assert task in TASKS, f"there is no task {task}"  # of a checkpoint, whose other settings are not here
    elif verb == "explain" and is_key(recipe):
        find_keys(recipe)
    elif verb == "explain" and recipe in SIZES:
        sized(recipe, settings)
    elif not PLACEHOLDER.fullmatch(recipe):
        load_recipe(recipe, settings)


@named
def test_commands_parse(document: Path) -> None:
    for line in command_lines(document):
        check_command(line)


def test_enough_commands_are_tried() -> None:
    lines = [line for document in DOCUMENTS for line in command_lines(document)]
    assert {line.split()[1] for line in lines if line.startswith("regard")} >= set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert {"make demo", "make test"} <= {" ".join(line.split()[:2]) for line in lines}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("regard trian translate", "regard has no trian"),
        ("regard train transalte", "no recipe 'transalte'"),
        ("regard train translate model.widht=3", "model.widht is not a setting"),
        ("regard train translate --dry", "--dry"),
        ("regard lens runs/demo", "text"),
        ("regard predict runs/demo x decode.beam=none", "decode.beam"),
        ("make cake", "make has no cake"),
    ],
)
def test_a_wrong_command_is_seen(line: str, says: str) -> None:
    with pytest.raises(Exception, match=re.escape(says)):
        check_command(line)


# --------------------------------------------------------------------------------------------------- lecture map and recipes


def lecture_rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "lectures.md").read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in cells if row[0] != "row"]


def test_every_row_of_the_lectures_is_in_the_map_once() -> None:
    assert [row[0] for row in lecture_rows()] == ROWS


def test_a_row_has_code_tests_and_something_to_type_or_says_not_yet() -> None:
    for name, _, code, tests, command in lecture_rows():
        if code == "not yet":
            assert not tests, name
            assert not command, name
        else:
            assert all(span.startswith(("src/regard/", "tools/")) for span in spans(code)), name
            assert spans(code), name
            assert all(re.match(r"tests/.*::(test|check)_", span) for span in spans(tests)), name
            assert spans(tests), name
            assert command, name


def test_rows_that_recipes_claim_are_done() -> None:
    done = {row[0] for row in lecture_rows() if row[2] != "not yet"}
    assert {row for name in builtin_names() for row in load_recipe(name).recipe.rows} <= done


@pytest.mark.parametrize("name", builtin_names())
def test_every_recipe_is_named(name: str) -> None:
    assert any(name in spans(document.read_text("utf-8")) for document in DOCUMENTS)
