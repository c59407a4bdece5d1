"""`regard bench`: what is measured, what was found last, and measuring it again.

The subjects are scripts in the repository's `benchmarks` folder, not in the package: they compare with peers that the package
never imports. This is the way to them for people; `python -m benchmarks.NAME` is the same measurement without a table.
"""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.core.errors import UserError, nearest

FOLDER = Path(__file__).parents[3] / "benchmarks"
TOOLS = ("render",)  # runs, and is no subject


def subjects() -> dict[str, str]:
    """Every script that measures something, with the first line of what it says about itself."""
    if not (FOLDER / "measure.py").is_file():
        raise UserError(
            f"there are no benchmarks at {FOLDER}: they come with Regard's repository, not with the installed package. "
            "Clone the repository and run 'regard bench' from its environment."
        )
    texts = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.py")) if path.stem not in TOOLS}
    said = {name: ast.get_docstring(ast.parse(text)) or "" for name, text in texts.items() if "__main__" in text}
    return {name: text.partition("\n")[0] for name, text in said.items()}


def listing() -> Iterator[str]:
    """Each subject, and when and where it was last measured, with which ratios."""
    known = subjects()
    render = _renderer()
    results = render.recorded(FOLDER / "results")
    for name, says in known.items():
        yield f"{name:<16} {says}"
        for result in (result for result in results if result["benchmark"] == name):
            found = render.headline(result)
            yield f"{'':<16} {result['date']}, {result['device']}{': ' if found else ''}{found}"
        yield ""
    yield "Measure one again with 'regard bench NAME'; 'regard bench --render' writes docs/performance.md."


def measure(name: str, arguments: Sequence[str] = ()) -> Iterator[str]:
    """Run a subject as a script, with what was typed behind its name, then show what it wrote."""
    known = subjects()
    if name not in known:
        raise UserError(f"there is no benchmark {name!r}{nearest(name, known)} 'regard bench' lists them.")
    script = FOLDER / f"{name}.py"
    if arguments and "sys.argv" not in script.read_text("utf-8"):
        raise UserError(f"benchmark {name!r} measures all it has; leave out {' '.join(arguments)!r}.")
    render = _renderer()
    try:
        with _typed(script, arguments):
            runpy.run_path(str(script), run_name="__main__")
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in ("regard", "benchmarks"):
            raise
        told = f"benchmark {name!r} compares with {error.name}, which is not installed"
        raise UserError(f"{told}; install the peers with 'pip install -r requirements-peers.txt'.") from None
    written = max((FOLDER / "results").glob(f"{name}.*.json"), key=lambda path: path.stat().st_mtime_ns, default=None)
    if written is not None:
        (result,) = (each for each in render.recorded(written.parent) if each["file"] == written.stem)
        yield from _tables(result, render)


def write_document() -> list[Path]:
    subjects()
    render = _renderer()
    written: list[Path] = render.render(render.recorded(FOLDER / "results"), FOLDER.parent / "docs")
    return written


@contextmanager
def _typed(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Run a block with sys.argv as if the script had been called by its own name."""
    before, sys.argv = sys.argv, [str(script), *arguments]
    try:
        yield
    finally:
        sys.argv = before


def _renderer() -> ModuleType:
    if str(FOLDER.parent) not in sys.path:
        sys.path.insert(0, str(FOLDER.parent))
    return importlib.import_module("benchmarks.render")


def _tables(result: dict[str, Any], render: ModuleType) -> Iterator[str]:
    if "rows" not in result:
        return
    yield f"\n{result['title']}: {result['device']}, {result['date']}\n{result['setting']}\n"
    for table in result["tables"]:
        yield f"{table['title']}\n{aligned([table['columns'], *table['rows']])}\n"
    if result["rows"]:
        yield aligned(render.cells(result["rows"]))


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells under each other, as wide as the widest."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths)).rstrip() for line in lines)
