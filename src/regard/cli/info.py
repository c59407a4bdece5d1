"""Verbs that tell: what a model is made of, how fast it all is, and what a bug report needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared import Json, Settings, examples, show_line

verbs = typer.Typer(rich_markup_mode=None)


@verbs.command(
    epilog=examples(
        "regard explain translate-base",
        "regard explain gpt3-175b",
        "regard explain runs/translate --json",
        "regard explain lra-text model.visibility='bigbird(64)' --out pattern.png",
    )
)
def explain(
    target: Annotated[
        str,
        typer.Argument(metavar="RECIPE|RUN|SIZE", help="a recipe, a .toml file, a run, or a size such as gpt3-175b"),
    ],
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="who may look at whom, drawn: .png or .svg")] = None,
    as_json: Json = False,
) -> None:
    """The model as a tree: shapes, parameters, files."""
    from regard.commands.explain import explain_picture, explain_rows, explain_tree

    if out is not None:
        explain_picture(target, settings or [], out)
    show_line(json.dumps(explain_rows(target, settings or []), indent=2) if as_json else explain_tree(target, settings or []))


@verbs.command(epilog=examples("regard bench attention", "regard bench lra listops seeds=1", "regard bench --render"))
def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="what to measure; by default, all are listed")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT]...", help="for a subject that takes any")] = None,
    render: Annotated[bool, typer.Option("--render", help="write docs/performance.md from all results")] = False,
) -> None:
    """Speed against peers: list, measure, document.

    Measuring replaces what was recorded for this subject in benchmarks/results.
    """
    from regard.commands.bench import listing, measure, write_document

    for line in measure(name, arguments or []) if name else [] if render else listing():
        show_line(line)
    for path in write_document() if render else []:
        show_line(f"written: {path}")


@verbs.command()
def doctor(as_json: Json = False) -> None:
    """Versions, devices, disk: what a bug report needs."""
    from regard.commands.doctor import examine, report

    findings = examine()
    show_line(json.dumps(findings, indent=2) if as_json else report(findings))
