"""Verbs that make runs: demo, recipes and train."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared import Device, Json, Plugins, RecipeName, Settings, examples, say, say_nothing, show_line
from regard.core.errors import UserError

verbs = typer.Typer(rich_markup_mode=None)


@verbs.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="folder of the run")] = Path("runs/demo"), device: Device = None
) -> None:
    """Train a translator in a minute, score it, draw its attention."""
    from regard.commands.demo import run_demo

    run_demo(out, device, say)


@verbs.command()
def recipes(as_json: Json = False) -> None:
    """List the recipes: model, time, score."""
    from regard.commands.reference import recipe_rows, recipe_table

    show_line(json.dumps(recipe_rows(), indent=2, ensure_ascii=False) if as_json else recipe_table())


@verbs.command(
    epilog=examples(
        "regard train translate",
        "regard train translate-small data.train=train.en,train.de data.valid=valid.en,valid.de --out runs/mine",
        "regard train translate model.width=128 train.steps=2000 --out runs/wide --dry-run",
    )
)
def train(
    recipe: RecipeName,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="folder of the run; by default runs/RECIPE")] = None,
    device: Device = None,
    plugin: Plugins = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check everything, estimate the cost, train nothing")] = False,
    full: Annotated[bool, typer.Option("--full", help="of --dry-run: print all settings as a recipe")] = False,
) -> None:
    """Train a recipe; the same command again continues it.

    Data is a .tsv, .csv or .jsonl file, or two aligned text files joined by a comma; 'regard explain RECIPE' shows the model.
    On N GPUs: 'torchrun --nproc-per-node N -m regard train RECIPE ...'.
    """
    from regard.runs.recipe import check_recipe

    if full and not dry_run:
        raise UserError("--full is for --dry-run; a run has all its settings in recipe.toml. Leave it out.")
    check_recipe(recipe, settings or [])
    from regard.commands.train import dry_run_lines, prepare_run, summary_lines, to_look, to_try, train_prepared
    from regard.runs.folder import choose_device
    from regard.runs.init_recipe import load_recipe_to_train
    from regard.training.distributed import process_group

    with process_group() as world:
        tell = say if world.is_main else say_nothing
        resolved = load_recipe_to_train(recipe, settings or [], out or Path("runs") / Path(recipe).stem)
        folder = out or Path("runs") / resolved.recipe.name
        where = world.local_device(choose_device(device))
        summary = summary_lines(recipe, settings or [], resolved)
        if dry_run:
            told = [resolved.to_toml()] if full else summary
            for line in (*told, *dry_run_lines(resolved, where, tell, folder)) if world.is_main else ():
                show_line(line)
            return
        prepared = prepare_run(resolved, folder, where, tell, world)
        tell("\n".join([*summary, f"all settings: {folder / 'recipe.toml'}"]))
        outcome = train_prepared(prepared, folder, where, tell, world)
    if outcome.interrupted:
        tell(f"saved step {outcome.progress.step:,} in {folder}; continue with: {shlex.join(['regard', *sys.argv[1:]])}")
        raise typer.Exit(outcome.interrupted)
    if not world.is_main:
        return
    for line in outcome.result.lines() if outcome.result else []:
        show_line(line)
    look = to_look(resolved, folder)
    show_line(f"run: {folder}    try: {to_try(resolved, folder)}{f'    look: {look}' if look else ''}")
