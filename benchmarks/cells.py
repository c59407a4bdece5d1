"""Races of several cells, of which some may be run: each is recorded when it is done, beside those that were recorded before.

A device that is lent by the minute may be taken back in the middle of a race; what was measured until then is kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import RESULTS, Row, Table, write

FAILED = "Cells that failed"


def parser(says: str, cells: Iterable[str], systems: Iterable[str], rounds: int) -> argparse.ArgumentParser:
    """Return the options that every race of cells has."""
    found = argparse.ArgumentParser(description=says.partition("\n")[0])
    found.add_argument("--cells", nargs="+", choices=[*cells], default=[*cells], metavar="CELL", help=", ".join(cells))
    found.add_argument("--systems", nargs="+", choices=[*systems], default=[*systems], metavar="SYSTEM", help=", ".join(systems))
    found.add_argument("--rounds", type=int, default=rounds)
    found.add_argument("--tiny", action="store_true", help="small models, to try whether everything runs; nothing is recorded")
    found.add_argument("--missing", action="store_true", help="only cells that are not recorded on this device")
    found.add_argument("--out", type=Path, help="a file for a copy of what is recorded")
    return found


class Cells:
    """The measurements of a race so far, and those of an earlier one in other cells on the same device with the same versions."""

    def __init__(self, name: str, title: str, setting: str, versions: Mapping[str, str], options: argparse.Namespace) -> None:
        self.name, self.title, self.setting, self.versions, self.options = name, title, setting, dict(versions), options
        self.rows, self.tables = list[Row](), dict[str, Table]()
        path = RESULTS / f"{name}.{'cuda' if torch.cuda.is_available() else 'cpu'}.json"
        before: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() and not options.tiny else {}
        if before.get("versions") == self.versions and before.get("torch") == torch.__version__:
            self.rows, self.tables = before["rows"], {table["title"]: table for table in before["tables"]}

    def add(self, row: Row) -> None:
        """Record a cell, in the place of an earlier one of the same case."""
        cases = [other["case"] for other in self.rows]
        if row["case"] in cases:
            self.rows[cases.index(row["case"])] = row
        else:
            self.rows.append(row)
        speeds = (f"{name} {speed['median']:,.0f}" for name, speed in row["systems"].items())
        ratios = (f"{name} {ratio:.2f}x" for name, ratio in row["ratios"].items())
        print(f"{row['case']}: {', '.join(speeds)} {row['unit']}; {', '.join(ratios)}", flush=True)
        self._write()

    def tell(self, title: str, columns: Sequence[str], found: Sequence[str]) -> None:
        """Record a line of a table, in the place of an earlier one with the same first cell."""
        table = self.tables.setdefault(title, {"title": title, "columns": [*columns], "rows": []})
        table["rows"] = [line for line in table["rows"] if line[0] != found[0]] + [[*found]]
        print(f"{title}: {', '.join(found)}", flush=True)
        self._write()

    def each(self, cells: Mapping[str, Callable[[], None]], cases: Mapping[str, str] | None = None) -> None:
        """Run the chosen cells; one that fails is told, and the next ones run. `cases` are the names of their rows, if others."""
        recorded = {row["case"] for row in self.rows} if self.options.missing else set()
        for name in self.options.cells:
            if (cases or {}).get(name, name) in recorded:
                print(f"{name}: recorded before", flush=True)
                continue
            try:
                cells[name]()
            except (RuntimeError, EOFError, ValueError, TypeError, AttributeError) as error:  # of any peer
                self.tell(FAILED, ["cell", "error"], [name, f"{type(error).__name__}: {error}"[:300]])
            else:
                self._forget(name)

    def _forget(self, name: str) -> None:
        """Take back that a cell failed earlier."""
        if FAILED in self.tables:
            left = [line for line in self.tables[FAILED]["rows"] if line[0] != name]
            self.tables[FAILED]["rows"] = left
            if not left:
                del self.tables[FAILED]
            self._write()

    def _write(self) -> None:
        if self.options.tiny:
            return
        tables = [*self.tables.values()]
        said = dict(title=self.title, setting=self.setting, versions=self.versions)
        path = write(self.name, rows=self.rows, tables=tables, **said)  # type: ignore[call-overload]
        if self.options.out is not None:
            self.options.out.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.options.out)
