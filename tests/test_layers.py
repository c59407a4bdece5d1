"""The order of reading is the order of importing: no folder looks to its right, and nothing that unpickles comes near."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard

PACKAGE = Path(regard.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

SHARED = {"config", "errors", "counted", "files", "lookup", "terminal"}  # may be imported by all, and import only each other
FOLDERS = ["text", "data", "model", "families", "objective", "train", "decode", "evaluate", "lens", "studio"]
ORDER = [*FOLDERS, "recipes", "recipe", "tasks", "__init__", "cli", "__main__"]
"""From left to right. `regard/__init__.py` is the shop window: it shows what tasks offer, and only `cli` may come after."""

CONSTANTS = {"regard.__version__"}  # which the window sets before it shows anything

UNPICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
UNPICKLING = {"torch.load", "torch.serialization", "torch.hub", "torch.package", "torch.jit.load", "pandas.read_pickle"}
UNPICKLING |= {"FileSystemReader", "dcp_to_torch_save", "read_pickle"}  # the first reads metadata that is a pickle
TEST_ORACLES = {"transformers"}

READERS = {"read_text", "read_bytes", "fromfile", "memmap", "loadtxt", "genfromtxt", "safe_open", "load_file", "ZipFile"}
WRITERS = {"write_text", "write_bytes", "save_file", "savez", "savetxt", "tofile"}
OPENERS = {"os", "io", "gzip", "bz2", "lzma", "codecs", "tarfile", "TarFile", "zipfile", "Image", "fileinput"}
OPENING = {
    "regard.files": "the one place that does",
    # What nobody gave a path of: the package's own files, the machine's, and what Regard itself put into the user's cache.
    "regard.recipe": "recipes that come along",
    "regard.lens.offline": "pages that come along",
    "regard.data.builtin.lexicon": "words that come along",
    "regard.studio.app": "the page that comes along",
    "regard.tasks.bench": "scripts of the clone",
    "regard.train.counters": "registers of the machine",
    "regard.train.precision": "what the processor can do",
    "regard.cli": "the null device",
    "regard.data.token_file": "the cache",
    "regard.data.arena.keeping": "the cache",
    # What was looked at by `files` before a library opens it by its name, or is open already.
    "regard.train.tensor_file": "safetensors, by name",
    "regard.families.public.reading": "safetensors, by name",
    "regard.train.manifest": "after lstat, and new files in a draft",
    "regard.train.durable": "flushes what was just written",
    "regard.families.public.writing": "new files in a draft",
    "regard.data.archives": "an open file",
    "regard.data.images": "bytes in memory",
    "regard.data.arena.pictures": "an open file",
    # What a person names on the command line, for this once.
    "regard.tasks.predict": "--input, where a pipe is welcome; its lines are bounded",
    "regard.lens.picture": "--out, as the shell would write it",
}
"""Who may open files by themselves, and why that is safe."""


LOOKED_UP = re.compile(r"regard(\.\w+)+:\w+")


def imported(tree: ast.AST, module: str) -> Iterator[str]:
    """Every module that is imported, also inside functions; `from a import b` may mean a.b, so it counts as that.

    What a table looks up by name (`regard.lookup`) is imported too.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and LOOKED_UP.fullmatch(node.value):
            yield node.value.replace(":", ".")


def module_name(path: Path) -> str:
    return ".".join(["regard", *path.relative_to(PACKAGE).with_suffix("").parts])


def layer(module: str) -> str:
    """The folder, or the file at the top, that a module of ours belongs to; a bare name of the package is its window."""
    name = module.split(".")[1] if "." in module else "__init__"
    return name if name in ORDER or name in SHARED or (PACKAGE / name).exists() else "__init__"


def violations(tree: ast.AST, module: str) -> list[str]:
    here = layer(module)
    found = []
    for name in imported(tree, module):
        if name.split(".")[0] != "regard" or name in CONSTANTS or (there := layer(name)) == here:
            continue
        allowed = there in SHARED or (here not in SHARED and ORDER.index(there) < ORDER.index(here))
        if not allowed:
            found.append(f"{module} imports {name}")
    return found


def unpickles(tree: ast.AST) -> list[str]:
    found = [name for name in imported(tree, "regard.x") if name.split(".")[0] in UNPICKLERS | TEST_ORACLES]
    found += [name for name in imported(tree, "regard.x") if any(f"{name}.".startswith(f"{bad}.") for bad in UNPICKLING)]
    found += [name for name in imported(tree, "regard.x") if name.split(".")[-1] in UNPICKLING]
    aliases = {alias.asname: alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            head, _, rest = ast.unparse(node).partition(".")
            name = f"{aliases.get(head, head)}.{rest}"
            found += [name] if name in UNPICKLING or node.attr in UNPICKLING else []
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            found += [text for text in map(ast.unparse, node.args) if text.strip("'\"") in UNPICKLERS]
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            found += [] if isinstance(node.value, ast.Constant) and node.value.value is False else ["allow_pickle"]
    return found


def opens(tree: ast.AST) -> list[str]:
    """Calls that open a file by its path, or may."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [ast.unparse(call.func) for call in calls if _is_opening(call)]


def _is_opening(call: ast.Call) -> bool:
    head, _, name = ast.unparse(call.func).rpartition(".")
    if name == "open":
        mode = [argument for argument in call.args[:1] if isinstance(argument, ast.Constant) and isinstance(argument.value, str)]
        return head in ("", *OPENERS) or not call.args or bool(mode)
    ours = not head and name in ("read_text", "write_text")  # functions of that name, not methods of a path
    return (name in READERS | WRITERS and not ours) or (head, name) in (("np", "load"), ("numpy", "load"))


def test_every_file_has_its_place() -> None:
    """A new folder must be put into ORDER before anything is built on it."""
    assert {layer(module_name(path)) for path in FILES} <= SHARED | set(ORDER)
    assert not {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))} - set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_imports_only_from_its_left(path: Path) -> None:
    assert violations(ast.parse(path.read_text("utf-8")), module_name(path)) == []


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_unpickles_nothing_and_needs_no_transformers(path: Path) -> None:
    assert unpickles(ast.parse(path.read_text("utf-8"))) == []


def test_files_are_opened_in_one_place() -> None:
    """`regard.files` refuses pipes, devices, bombs and links that lead out; who needs no such care says here why not."""
    found = {module_name(path).removesuffix(".__init__") for path in FILES if opens(ast.parse(path.read_text("utf-8")))}
    assert found - OPENING.keys() == set()
    assert OPENING.keys() - found == set()


@pytest.mark.parametrize(
    "code",
    [
        "open(path)",
        "path.open()",
        "path.open('rb')",
        "(folder / name).open('w', encoding='utf-8')",
        "gzip.open(path, 'rb')",
        "tarfile.open(path)",
        "os.open(path, os.O_RDONLY)",
        "path.read_text('utf-8')",
        "Path(name).read_bytes()",
        "np.load(path, allow_pickle=False)",
        "np.fromfile(path, np.uint8)",
        "safe_open(path, framework='pt')",
        "Image.open(path)",
    ],
)
def test_opening_is_seen(code: str) -> None:
    assert opens(ast.parse(code))


@pytest.mark.parametrize("code", ["Run.open(folder)", "task.open(run, recipe, device)", "read_text(path, 10)", "json.load(file)"])
def test_what_opens_no_file_is_not_taken_for_it(code: str) -> None:
    assert not opens(ast.parse(code))


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("regard.text.learn", "import regard.data.pair"),
        ("regard.text.learn", "from regard.data import pair"),
        ("regard.text.learn", "from regard import data"),
        ("regard.text.learn", "from ..data import pair"),
        ("regard.text.learn", "from .. import data"),
        ("regard.text.learn", "def f():\n    if True:\n        from regard.tasks.run import Run"),
        ("regard.lens.page", "from regard.recipe import Recipe"),
        ("regard.recipe", "from regard.tasks import run"),
        ("regard.recipe", "from regard import load"),
        ("regard.tasks.run", "from regard.cli import main"),
        ("regard.config", "from regard.text.vocabulary import PAD"),
        ("regard.train.loop", "from regard.decode.beam import beam_search"),
        ("regard.recipe", "ByName({'tag': 'regard.tasks.tag:TASK'})"),
    ],
)
def test_looking_right_is_seen(module: str, code: str) -> None:
    assert len(violations(ast.parse(code), module)) == 1


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("regard.tasks.run", "import torch\nfrom regard.recipe import Recipe\nfrom regard.lens import picture"),
        ("regard.data.batches", "from regard.text.vocabulary import PAD\nfrom regard.counted import generator"),
        ("regard.data.batches", "from . import pair\nfrom .pair import Pair\nfrom regard.data import pair"),
        ("regard.config", "from regard.errors import UserError"),
        ("regard.cli", "import regard\nfrom regard import load"),
    ],
)
def test_looking_left_is_allowed(module: str, code: str) -> None:
    assert violations(ast.parse(code), module) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "def f():\n    import pickle as p",
        "from pickle import loads",
        "import torch\ntorch.load('x')",
        "import torch\nf = torch.load",
        "from torch import load",
        "import torch as t\nt.load('x')",
        "import torch\ntorch.jit.load('x')",
        "from torch.serialization import load",
        "import importlib\nimportlib.import_module('pickle')",
        "import pandas as pd\npd.read_pickle('x')",
        "import torch.distributed.checkpoint as dcp\ndcp.FileSystemReader('x')",
        "from torch.distributed.checkpoint import FileSystemReader",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
        "from transformers import AutoModel",
        "import transformers.models.bert",
    ],
)
def test_unpickling_and_borrowing_are_seen(code: str) -> None:
    assert unpickles(ast.parse(code))
