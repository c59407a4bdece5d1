"""The tree of the package: who may import whom, how long files and functions are, and where families may be named.

The rules are tables at the top. A rule that the code does not keep yet has a number in LEFT: how often it is broken today. The
number may not grow, and whoever lowers the count lowers the number, so that it never leaves room for new breaches.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import regard
from tests.command import trained

PACKAGE, TESTS = Path(regard.__file__).parent, Path(__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

ROWS = (
    ("core",),
    ("text",),
    ("data",),
    ("model",),
    ("families",),
    ("objectives", "training", "decode", "metrics"),
    ("lens",),
    ("interop",),
    ("runs",),
    ("tasks",),
    ("commands",),
    ("attention", "models", "register", "__init__"),  # what `import regard` offers
    ("studio", "serve", "cli"),
    ("__main__",),
)
"""Folders of the package, or files at its top. A row imports from rows above it, and within a row from the left."""

CONSTANTS = {"regard.__version__"}  # which `regard/__init__.py` sets before it imports anything

FENCED = ("core", "text", "model", "families/transformer", "families/gpt", "families/bert", "objectives/base")
FENCED += ("training/loop", "training/step", "decode/search", "decode/beam")
NOT_FENCED = (
    "model/sparse",
    "model/kernels",
    "model/recurrent",
    "model/vision",
    "model/perceiver",
    "model/memory",
    "model/series",
)
"""The core that a newcomer reads in a day: folders and modules, and what of them is left out."""

MAY_ASK_FOR_A_FAMILY = ("families", "interop")
TESTED_BY_NAME = ("model", "families", "objectives", "decode")


class Limits(NamedTuple):
    fenced_lines: int = 9_000
    file_lines: int = 400
    function_lines: int = 60
    modules_of_a_translator: int = 150


LIMITS = Limits()
LEFT = {
    "imports from below": 0,
    "isinstance on a family": 0,
    "modules without a test of their name": 0,
}

LOOKED_UP = re.compile(r"regard(\.\w+)+:\w+")


# --- what the checks are made of -------------------------------------------------------------------------------------------
def module_name(path: Path) -> str:
    return ".".join(["regard", *path.relative_to(PACKAGE).with_suffix("").parts])


def place(module: str) -> str:
    """Return the path of a module below the package: regard.training.loop -> training/loop."""
    return "/".join(module.split(".")[1:] or ["__init__"])


def layer(module: str) -> str:
    """Return the entry of ROWS that a module belongs to; an attribute of the package itself belongs to its `__init__`."""
    first = place(module).split("/")[0]
    known = any(first in row for row in ROWS) or (PACKAGE / module.split(".")[1]).exists()
    return first if known else "__init__"


def imported(tree: ast.AST, module: str) -> Iterator[str]:
    """Yield every module that is imported, also inside functions; `from a import b` may mean a.b, so it counts as that.

    What a table looks up by name (`module:attribute`) is imported too.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{_base(node, module)}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and LOOKED_UP.fullmatch(node.value):
            yield node.value.replace(":", ".")


def _base(node: ast.ImportFrom, module: str) -> str:
    parents = module.split(".")[: -node.level] if node.level else []
    return ".".join([*parents, *([node.module] if node.module else [])])


def imports_from_below(tree: ast.AST, module: str) -> list[str]:
    """List the imports of a module that ROWS does not allow."""
    order = [name for row in ROWS for name in row]
    names = [name for name in imported(tree, module) if name.split(".")[0] == "regard" and name not in CONSTANTS]
    return [f"{module} imports {name}" for name in names if order.index(layer(name)) > order.index(layer(module))]


def long_functions(tree: ast.AST, module: str) -> list[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = [(node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
    return [f"{module}.{name} has {lines} lines" for name, lines in lengths if lines > LIMITS.function_lines]


def is_fenced(module: str) -> bool:
    path = place(module) + "/"
    return path.startswith(tuple(f"{name}/" for name in FENCED)) and not path.startswith(tuple(f"{name}/" for name in NOT_FENCED))


def family_checks(tree: ast.AST, module: str) -> list[str]:
    """List the questions whether a value is of a family's class: isinstance, issubclass, `match`, `type(x) is`.

    A family's class is what is imported from `families`, its base aside, also under another name, in a tuple or in a union.
    """
    families = _from_families(tree, module)
    found = []
    for node in ast.walk(tree) if families else ():
        asked: ast.AST | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            asked = node.args[1]
        elif isinstance(node, ast.MatchClass):
            asked = node.cls
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call) and ast.unparse(node.left.func) == "type":
            asked = node.comparators[0]
        if asked is not None and families & _names(asked):
            found.append(f"{module}:{node.lineno} asks for {ast.unparse(asked)}")
    return found


def _from_families(tree: ast.AST, module: str) -> set[str]:
    """Return the names that a file gives to what it imports from `families`, and to tuples and unions of these."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            base = f"{_base(node, module)}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                name = f"{base}{alias.name}"
                if name.startswith("regard.families.") and not name.startswith("regard.families.base."):
                    found.add(alias.asname or (alias.name if base else name))
    for node in ast.walk(tree) if found else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.BinOp) and found & _names(node.value):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _names(tree: ast.AST) -> set[str]:
    """Return every name in an expression, and every dotted one: a.b.C gives a, a.b and a.b.C."""
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)}


def untested(modules: list[Path], tests: list[Path]) -> list[str]:
    """List the modules (below `regard/`) without a test file of their name (below `tests/`).

    It lies anywhere in the test folder of the module's folder; where two modules share a name, where it mirrors the module.
    """
    names = [(path.parts[0], path.stem) for path in modules]
    missing = []
    for path, name in zip(modules, names):
        wanted = path.with_name(f"test_{path.name}")
        fitting = [test for test in tests if test.name == wanted.name and test.parts[0] == path.parts[0]]
        if wanted not in tests and (not fitting or names.count(name) > 1):
            missing.append(f"{path} has no tests/{wanted}")
    return missing


def hold(rule: str, found: list[str]) -> None:
    """Fail unless a rule is broken exactly as often as LEFT allows."""
    count, left = len(found), LEFT[rule]
    assert count <= left, f"{rule}: {count}, where {left} are left to remove:\n" + "\n".join(found)
    assert count == left, f"{rule}: only {count} are left. Lower LEFT[{rule!r}] from {left} to {count}."


def parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text("utf-8"))


# --- the checks --------------------------------------------------------------------------------------------------------------
def test_every_file_has_a_row() -> None:
    """A new folder must be put into ROWS before anything is built on it."""
    assert {layer(module_name(path)) for path in FILES} <= {name for row in ROWS for name in row}


def test_a_row_imports_only_from_above() -> None:
    hold("imports from below", [line for path in FILES for line in imports_from_below(parsed(path), module_name(path))])


def test_the_fenced_core_can_be_read_in_a_day() -> None:
    lines = {module_name(path): len(path.read_text("utf-8").splitlines()) for path in FILES if is_fenced(module_name(path))}
    assert len(lines) > 20  # the names of FENCED are those of the tree
    assert sum(lines.values()) <= LIMITS.fenced_lines, "\n".join(f"{count:>5} {name}" for name, count in lines.items())


def test_no_file_is_too_long() -> None:
    lines = {module_name(path): len(path.read_text("utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > LIMITS.file_lines} == {}


def test_no_function_is_too_long() -> None:
    assert [line for path in FILES for line in long_functions(parsed(path), module_name(path))] == []


def test_only_families_and_interop_ask_for_a_family() -> None:
    files = [path for path in FILES if layer(module_name(path)) not in MAY_ASK_FOR_A_FAMILY]
    hold("isinstance on a family", [line for path in files for line in family_checks(parsed(path), module_name(path))])


def test_every_module_has_a_test_of_its_name() -> None:
    modules = [Path(place(module_name(path))).with_suffix(".py") for path in FILES if path.stem != "__init__"]
    tests = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    hold("modules without a test of their name", untested([path for path in modules if path.parts[0] in TESTED_BY_NAME], tests))


def test_opening_a_translator_imports_little_of_ours() -> None:
    script = "import json, sys, regard; regard.load(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script, str(trained())], capture_output=True, text=True, check=True)
    ours = [name for name in json.loads(ran.stdout) if name.split(".")[0] == "regard"]
    assert len(ours) <= LIMITS.modules_of_a_translator, "\n".join(ours)


# --- the checks can fail -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("regard.text.kinds", "import regard.data.tagset"),
        ("regard.text.kinds", "from regard.data import tagset"),
        ("regard.text.kinds", "from regard import data"),
        ("regard.text.kinds", "from ..data import tagset"),
        ("regard.text.kinds", "from .. import data"),
        ("regard.text.kinds", "def f():\n    if True:\n        from regard.tasks.registry import Run"),
        ("regard.lens.page", "from regard.runs.recipe import Recipe"),
        ("regard.runs.recipe", "from regard.tasks import run"),
        ("regard.runs.recipe", "from regard import load"),
        ("regard.runs.folder", "from regard import load"),
        ("regard.tasks.registry", "from regard.cli import main"),
        ("regard.tasks.translation.prepare", "from regard.studio import session"),
        ("regard.core.config", "from regard.text.specials import PAD"),
        ("regard.training.loop", "from regard.decode.beam import BeamSearch"),
        ("regard.objectives.base", "from regard.training.loop import train"),
        ("regard.runs.recipe", "ByName({'tag': 'regard.tasks.tagging.prepare:TASK'})"),
    ],
)
def test_an_import_from_below_is_found(module: str, code: str) -> None:
    assert len(imports_from_below(ast.parse(code), module)) == 1


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("regard.tasks.registry", "import torch\nfrom regard.runs.recipe import Recipe\nfrom regard.lens import result"),
        ("regard.data.batching.pairs", "from regard.text.specials import PAD\nfrom regard.core.rng import generator"),
        ("regard.data.batching.pairs", "from . import qa\nfrom .qa import Spans\nfrom regard.data import loader"),
        ("regard.core.config", "from regard.core.errors import UserError\nfrom regard import __version__"),
        ("regard.training.loop", "from regard.objectives.base import Loss\nfrom regard.core.errors import UserError"),
        ("regard.cli", "import regard\nfrom regard import load"),
        ("regard.cli.train", "from regard.studio.server import serve\nfrom regard.commands.train import train"),
    ],
)
def test_an_import_from_above_is_allowed(module: str, code: str) -> None:
    assert imports_from_below(ast.parse(code), module) == []


@pytest.mark.parametrize(
    "code",
    [
        "from regard.families.gpt import GPT\nisinstance(model, GPT)",
        "from regard.families.gpt import GPTConfig as C\nisinstance(model, (int, C))",
        "from regard.families.gpt import GPT\nfrom regard.families.bert import BERT\nisinstance(model, GPT | BERT)",
        "from regard.families import gpt\nisinstance(model, gpt.GPT)",
        "import regard.families.gpt\nisinstance(model, regard.families.gpt.GPT)",
        "from ..families.gpt import GPT\nissubclass(kind, GPT)",
        "from regard.families.gpt import GPT\nWRITERS = (GPT,)\nisinstance(model, WRITERS)",
        "from regard.families.gpt import GPT\nmatch model:\n    case GPT(): pass",
        "from regard.families.gpt import GPT\ntype(model) is GPT",
    ],
)
def test_asking_for_a_family_is_found(code: str) -> None:
    assert len(family_checks(ast.parse(code), "regard.tasks.predict")) == 1


@pytest.mark.parametrize(
    "code",
    [
        "from regard.families.gpt import GPT\nisinstance(GPT(config), Writes)",
        "from regard.families.base import Family\nisinstance(value, Family)",
        "from regard.model.block import GPT\nisinstance(model, GPT)",
        "from regard.families.gpt import GPT\nmodel = GPT(config)",
    ],
)
def test_what_asks_for_no_family_is_not_taken_for_it(code: str) -> None:
    assert family_checks(ast.parse(code), "regard.tasks.predict") == []


def test_a_long_function_is_found_also_in_a_class() -> None:
    body = "        pass\n" * LIMITS.function_lines
    assert long_functions(ast.parse(f"class A:\n    def f(self):\n{body}"), "a") == ["a.f has 61 lines"]
    assert long_functions(ast.parse(f"def f():\n    async def g(\n        x):\n{body}"), "a") == [
        "a.f has 63 lines",
        "a.g has 62 lines",
    ]
    assert long_functions(ast.parse(f"class A:\n    def f(self):\n{body.removesuffix('        pass' + chr(10))}"), "a") == []


def test_the_fence_is_where_the_design_says() -> None:
    inside = (
        "regard.core.rng",
        "regard.core.errors",
        "regard.text.offsets",
        "regard.model.mixers.softmax",
        "regard.families.gpt",
    )
    outside = (
        "regard.model.kernels.decode_step",
        "regard.families.gpt_tables",
        "regard.families.electra",
        "regard.decode.algorithm",
        "regard.cli",
    )
    assert all(map(is_fenced, inside))
    assert not any(map(is_fenced, outside))


def test_a_module_without_a_test_is_found() -> None:
    names = ("model/block.py", "model/mixers/dot.py", "model/mixers/late.py", "model/recurrent/late.py")
    tests = [Path(name) for name in ("model/test_dot.py", "model/recurrent/test_late.py", "decode/test_block.py")]
    assert [line.split()[0] for line in untested(list(map(Path, names)), tests)] == ["model/block.py", "model/mixers/late.py"]


def test_what_is_left_may_neither_grow_nor_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEFT, "rule", 1)
    hold("rule", ["a"])
    with pytest.raises(AssertionError, match="left to remove"):
        hold("rule", ["a", "b"])
    with pytest.raises(AssertionError, match="Lower LEFT"):
        hold("rule", [])
