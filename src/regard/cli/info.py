"""Verbs that inform: what a model or a setting is, how fast Regard is, and what a bug report needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared import Json, Plugins, Settings, examples, show_line
from regard.core.errors import UserError

verbs = typer.Typer(rich_markup_mode=None)


@verbs.command(
    epilog=examples(
        "regard explain translate-base",
        "regard explain gpt3-175b",
        "regard explain runs/translate --json",
        "regard explain lra-text model.visibility='bigbird(64)' --out pattern.png",
        "regard explain train.warmup",
    )
)
def explain(
    target: Annotated[
        str,
        typer.Argument(metavar="RECIPE|RUN|SIZE|KEY", help="a recipe, a run, a size (gpt3-175b) or a setting (train.warmup)"),
    ],
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="the attention pattern as a picture: .png or .svg")] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Print a model as a tree of shapes and parameters, or a setting.

    A setting, such as train.warmup, is explained by its meaning, type, default and the tasks or families that take it; a section,
    such as train, by the meanings of its keys.
    """
    from regard.commands.reference import explain_key, find_keys, is_key

    if is_key(target):
        if settings or out is not None:
            raise UserError(f"{target} is a setting, explained without {out or (settings or [])[0]}; leave that out.")
        found = [key.as_dict() for key in find_keys(target)] if as_json else []
        show_line(json.dumps(found, indent=2) if as_json else explain_key(target))
        return
    from regard.commands.explain import explain_picture, explain_rows, explain_tree

    if out is not None:
        explain_picture(target, settings or [], out)
    show_line(json.dumps(explain_rows(target, settings or []), indent=2) if as_json else explain_tree(target, settings or []))


@verbs.command(epilog=examples("regard bench attention", "regard bench lra listops seeds=1", "regard bench --render"))
def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="benchmark to run; without one, all are listed")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT]...", help="arguments of the benchmark")] = None,
    render: Annotated[bool, typer.Option("--render", help="write docs/performance.md from all results")] = False,
) -> None:
    """Measure speed against peers, and document it.

    A measurement replaces the one recorded in benchmarks/results.
    """
    from regard.commands.bench import listing, measure, write_document

    for line in measure(name, arguments or []) if name else [] if render else listing():
        show_line(line)
    for path in write_document() if render else []:
        show_line(f"written: {path}")


@verbs.command()
def doctor(as_json: Json = False) -> None:
    """Print versions, devices and disk space for a bug report."""
    from regard.commands.doctor import examine, report

    findings = examine()
    show_line(json.dumps(findings, indent=2) if as_json else report(findings))
