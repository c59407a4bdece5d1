"""How the package reads files: nothing is unpickled, and files are opened in one place, which refuses what is hostile."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.test_architecture import FILES, imported, module_name

UNPICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
UNPICKLING = {"torch.load", "torch.serialization", "torch.hub", "torch.package", "torch.jit.load", "pandas.read_pickle"}
UNPICKLING |= {"FileSystemReader", "dcp_to_torch_save", "read_pickle"}  # the first reads metadata that is a pickle
TEST_ORACLES = {"transformers"}
COMPARES = "regard.interop.huggingface.check"  # an import with transformers, where that is installed; nothing needs it

READERS = {"read_text", "read_bytes", "fromfile", "memmap", "loadtxt", "genfromtxt", "safe_open", "load_file", "ZipFile"}
WRITERS = {"write_text", "write_bytes", "save_file", "savez", "savetxt", "tofile"}
OPENERS = {"os", "io", "gzip", "bz2", "lzma", "codecs", "tarfile", "TarFile", "zipfile", "Image", "fileinput"}
OPENING = {
    "regard.core.files": "the one place that does",
    # What nobody gave a path of: the package's own files, the machine's, and what Regard itself put into the user's cache.
    "regard.runs.recipe": "recipes that come along",
    "regard.commands.reference": "meanings of keys that come along",
    "regard.families": "families that come along",
    "regard.data.builtin": "rows that come along",
    "regard.studio.app": "the page that comes along",
    "regard.commands.bench": "scripts of the clone",
    "regard.training.energy": "registers of the machine",
    "regard.training.compile": "what the processor can do",
    "regard.serve.memory": "what memory the machine has left",
    "regard.cli": "the null device",
    "regard.data.batching.token_cache": "the cache",
    "regard.data.lra.generate": "the cache",
    # What was looked at by `files` before a library opens it by its name, or is open already.
    "regard.training.checkpoint_files": "safetensors, by name; others after lstat, and new files in a draft",
    "regard.interop.huggingface.load": "safetensors, by name",
    "regard.core.atomic": "flushes what was just written",
    "regard.interop.huggingface.save": "new files in a draft",
    "regard.interop.huggingface.adapters": "new files in a draft",
    "regard.tasks.image_generation.predict": "new files in a draft",
    "regard.data.sources.files": "an open file",
    "regard.data.sources.images": "bytes in memory",
    "regard.data.sources.image_arrays": "an open file",
    # What a person names on the command line, for this once.
    "regard.commands.predict": "--input, where a pipe is welcome; its lines are bounded",
    "regard.interop.onnx.scripts.arrays": "a program that is written beside exported graphs, for others",
    "regard.interop.onnx.scripts.read": "the same",
    "regard.interop.onnx.scripts.translate": "the same",
    "regard.interop.onnx.scripts.write": "the same",
    "regard.lens.result": "screens of a page, which come along, and --out, as the shell would write it",
}
"""Who may open files by themselves, and why that is safe."""


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


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_unpickles_nothing_and_needs_no_transformers(path: Path) -> None:
    assert set(unpickles(ast.parse(path.read_text("utf-8")))) <= (TEST_ORACLES if module_name(path) == COMPARES else set())


def test_files_are_opened_in_one_place() -> None:
    """`regard.core.files` refuses pipes, devices, bombs and links that lead out; who needs no such care says here why not."""
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
