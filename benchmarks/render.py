"""docs/performance.md and its pictures, from results/*.json and nothing else.

    python -m benchmarks.render

A race (a result with rows) becomes a table with a line for each case and a column for each system; a record in a form of its own
is shown as it is. The same cells are what `regard bench NAME` prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import plot
from benchmarks.measure import RESULTS, Row
from regard.core.errors import UserError

DOCS = Path(__file__).parents[1] / "docs"
PICTURE = "images/performance.svg"
STAMP = ("benchmark", "date", "device", "python", "torch")
Result = dict[str, Any]

OPENING = f"""# Performance

Written by `regard bench --render` from `benchmarks/results`; `regard bench` lists the subjects, `regard bench NAME` measures one
again. First the outputs are compared; then the systems take turns, in a new order each round.

![How many times as fast: a bar is the mean over the cases of a subject, dots are the cases]({PICTURE})

In the tables, *97.1 ±2%* is the median speed and half the distance between its quartiles. *2.71×* beside a peer's speed is the
ratio of the first column's system to it, the median of the ratios within each round; where another system than the first is
compared, it is named.
"""


def recorded(folder: Path = RESULTS) -> list[Result]:
    """Every result, by name and device."""
    results = []
    for path in sorted(folder.glob("*.json")):
        try:
            results.append(json.loads(path.read_text("utf-8")) | {"file": path.stem})
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not JSON ({error}); run its benchmark again, or remove the file.") from None
    return results


# --------------------------------------------------------------------------------------------------------------------- cells


def number(value: float) -> str:
    """Three digits or so, for people."""
    if value >= 1e6:
        return f"{number(value / 1e6)}M"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """A heading, then a line for each case: the speed of every system, its ratio and its memory."""
    systems = list(dict.fromkeys(name for row in rows for name in row["systems"]))
    units = list(dict.fromkeys(row["unit"] for row in rows))
    barred = any(row["bars"] for row in rows)
    heading = [" or ".join(units), *systems, *(["bars"] if barred else [])]
    return [heading, *([row["case"], *(_cell(row, name) for name in systems), *([_bars(row)] if barred else [])] for row in rows)]


def _cell(row: Row, name: str) -> str:
    if name not in row["systems"]:
        return ""
    speed, first = row["systems"][name], next(iter(row["systems"]))
    spread = 50 * (speed["upper_quartile"] - speed["lower_quartile"]) / speed["median"]
    parts = [f"{number(speed['median'])} ±{spread:.0f}%"]
    for ratio, value in row["ratios"].items():
        ours, _, theirs = ratio.partition(" / ")
        if theirs == name:
            repeated = "".join(f", in another race {other:.2f}×" for other in row.get("again", {}).get(ratio, []))
            parts.append(f"{value:.2f}×{repeated}" if ours == first else f"{ours} {value:.2f}×{repeated}")
    if "peak_bytes" in speed:
        parts.append(f"{number(speed['peak_bytes'] / 1e6)} MB")
    return ", ".join(parts)


def _bars(row: Row) -> str:
    """Whether each level was reached in every race of this case that was run."""
    told = []
    for ratio, bar in row["bars"].items():
        levels = {"floor": bar.get("floor"), "goal": bar.get("goal")}
        seen = min([row["ratios"][ratio], *row.get("again", {}).get(ratio, [])])
        met = {name: "met" if seen >= least else "not met" for name, least in levels.items() if least is not None}
        told.append(f"{ratio}: {', '.join(f'{name} {levels[name]:g} {word}' for name, word in met.items())}")
    return "; ".join(told)


def headline(result: Result) -> str:
    """How each ratio lies over all cases of a race; nothing for another record."""
    found = plot.by_ratio(result.get("rows", []))
    return ", ".join(f"{name} {_range(values)}" for name, values in found.items())


def _range(values: Sequence[float]) -> str:
    least, most = f"{min(values):.2f}", f"{max(values):.2f}"
    return f"{least}×" if least == most else f"{least} to {most}×"


# ----------------------------------------------------------------------------------------------------------------- the document


def document(results: Sequence[Result]) -> str:
    races = [result for result in results if "rows" in result]
    others = [result for result in results if "rows" not in result]
    titles = dict.fromkeys((result["benchmark"], result["title"]) for result in races)
    parts = [OPENING]
    for name, title in titles:
        parts.append(f"## {title}\n\n`regard bench {name}`\n")
        parts += ["\n".join(_race(result)) for result in races if result["benchmark"] == name]
    if others:
        parts.append("## Other records\n")
        parts += ["\n".join(_record(result)) for result in others]
    return "\n".join(parts).rstrip() + "\n"


def _race(result: Result) -> Iterator[str]:
    yield from _stamp(result, result["device"])
    yield f"{result['setting']}\n"
    for table in result["tables"]:
        yield f"**{table['title']}**\n"
        yield from _markdown([table["columns"], *table["rows"]])
    if result["curves"]:
        yield f"![{result['title']}: {'; '.join(curves['title'] for curves in result['curves'])}]({_curves_picture(result)})\n"
    if result["rows"]:
        yield from _markdown(cells(result["rows"]))


def _record(result: Result) -> Iterator[str]:
    yield from _stamp(result, f"{result['benchmark']}, {result['device']}")
    rest = {key: value for key, value in result.items() if key not in (*STAMP, "file")}
    tables = {key: rows for key, value in rest.items() if (rows := _rows(value))}
    if plain := dict(_flat({key: value for key, value in rest.items() if key not in tables})):
        yield from _markdown([["", ""], *([name, value] for name, value in plain.items())])
    for key, rows in tables.items():
        yield f"**{key.replace('_', ' ')}**\n"
        flat = {name: dict(_flat(row)) for name, row in rows.items()}
        columns = list(dict.fromkeys(column for row in flat.values() for column in row))
        yield from _markdown(
            [["", *columns], *([name, *(row.get(column, "") for column in columns)] for name, row in flat.items())]
        )


def _rows(value: Any) -> dict[str, Mapping[str, Any]]:
    """Several findings of one kind, by name or number: mappings of mappings, or lists of them. Nothing for anything else."""
    if isinstance(value, list):
        value = dict(enumerate(value, 1))
    if not isinstance(value, Mapping):
        return {}
    series = {name: each if isinstance(each, list) else [each] for name, each in value.items()}
    found = {f"{name} {n}" if len(each) > 1 else str(name): row for name, each in series.items() for n, row in enumerate(each, 1)}
    return found if len(found) > 1 and all(isinstance(row, Mapping) for row in found.values()) else {}


def _stamp(result: Result, heading: str) -> Iterator[str]:
    versions = "".join(f", {name} {number}" for name, number in result.get("versions", {}).items())
    yield f"### {heading}\n"
    yield f"{result['date']}, Python {result['python']}, torch {result['torch']}{versions}.\n"


def _flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        name = f"{before}{key.replace('_', ' ')}"
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{name}, ")
        else:
            yield name, ", ".join(map(_brief, inner)) if isinstance(inner, list) else _brief(inner)


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _markdown(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    heading, *rest = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    yield f"| {' | '.join(heading)} |"
    yield "|" + "---|" * len(heading)
    yield from (f"| {' | '.join(line)} |" for line in rest)
    yield ""


def _curves_picture(result: Result) -> str:
    return PICTURE.replace(".svg", f"-{result['file']}.svg")


def render(results: Sequence[Result], docs: Path = DOCS) -> list[Path]:
    """Write the document and its pictures; the paths written."""
    written = {docs / "performance.md": document(results), docs / PICTURE: plot.ratios(results)}
    written |= {docs / _curves_picture(each): plot.curves(each["curves"]) for each in results if each.get("curves")}
    (docs / PICTURE).parent.mkdir(parents=True, exist_ok=True)
    for path, text in written.items():
        path.write_text(text, "utf-8")
    return list(written)


if __name__ == "__main__":
    print("\n".join(f"written: {path}" for path in render(recorded())))
