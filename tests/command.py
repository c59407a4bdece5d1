"""The real command line in this process, and one tiny trained run that tests read or copy: what the tests of commands share."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

import torch

from regard.cli import main
from regard.core.terminal import OBEYED

ENGLISH, FRENCH = ("cat", "dog", "bird", "horse"), ("chat", "chien", "merle", "cheval")
SEES, VOIT = ("sees", "hears", "likes"), ("voit", "entend", "aime")
SENTENCES = [
    (f"the {ENGLISH[a]} {SEES[v]} the {ENGLISH[b]} .", f"le {FRENCH[a]} {VOIT[v]} le {FRENCH[b]} .")
    for a, v, b in product(range(4), range(3), range(4))
]

RECIPE = """
[data]
train = ["{0}/train.en", "{0}/train.fr"]
valid = ["{0}/valid.tsv"]
test = ["{0}/test.tsv"]
[text]
tokenizer = "word"
size = 100
[model]
width = 16
heads = 2
layers = 1
feedforward = 32
dropout = 0.0
[train]
steps = 20
tokens_per_batch = 256
warmup = 5
learning_rate = 1e-2
validate_every = 10
checkpoint_every = 10
[decode]
beam = 2
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str


def regard(*arguments: object, stdin: bytes = b"") -> Result:
    """What `regard ARGUMENTS` prints and how it ends."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    typed = [str(argument) for argument in arguments]
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)))),
        patch.object(sys, "argv", ["regard", *typed]),
    ):
        try:
            main(typed)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Result(code, out.getvalue(), err.getvalue())


def regard_apart(*arguments: object, prepare: Callable[[], None]) -> Result:
    """The same in a process of its own, which is prepared first: one forked from this, so that nothing is imported again."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            prepare()
            os.write(writing, json.dumps(regard(*arguments)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        told = file.read()
    os.waitpid(child, 0)
    return Result(*json.loads(told))


def went_well(result: Result) -> bool:
    """It ended well, with nothing to remark but, in one line that any terminal can show, which words it does not know."""
    remarks = result.err.split("\n")[:-1]
    known = [line for line in remarks if not line.startswith("unknown: ")]
    return result.code == 0 and known == [] and len(remarks) <= 1 and not any(map(OBEYED.search, remarks))


def refused(result: Result, *told: str) -> str:
    """The one message of a command that was refused, once it has the form that every such message has."""
    assert result.code == 2, result
    assert "Traceback" not in result.err
    assert result.err.count("regard: ") == 1, result.err
    message = result.err[result.err.index("regard: ") :]
    assert result.err.startswith("regard: ") or result.err.endswith("\n" + message)
    assert 20 < len(message) < 600, message
    assert message.count("\n") <= 3, message
    assert message.rstrip()[-1] in ".?)" or "iconv" in message, message  # a sentence, or one that ends with what to type
    for part in told:
        assert part in message, f"{part!r} is not told: {message}"
    return message


def write_tiny(folder: Path) -> Path:
    """A recipe and its data; the recipe's path."""
    train, valid, test = SENTENCES[:40], SENTENCES[40:44], SENTENCES[44:]
    (folder / "train.en").write_text("".join(f"{source}\n" for source, _ in train))
    (folder / "train.fr").write_text("".join(f"{target}\n" for _, target in train))
    for name, pairs in (("valid", valid), ("test", test)):
        (folder / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    recipe = folder / "tiny.toml"
    recipe.write_text(RECIPE.format(folder))
    return recipe


_kept = TemporaryDirectory(prefix="regard-tests-")


@cache
def tiny() -> Path:
    """The recipe that `trained` was made by: to be read, not changed."""
    torch.set_num_threads(1)
    return write_tiny(Path(_kept.name))


@cache
def trained() -> Path:
    """A run of twenty steps: to be read, not changed."""
    run = tiny().parent / "run"
    result = regard("train", tiny(), "--out", run)
    assert result.code == 0, result.err
    return run


def copy_of_run(folder: Path) -> Path:
    return Path(shutil.copytree(trained(), folder / "run"))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, and what is in it: equal before and after if nothing was touched."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}
