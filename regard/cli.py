"""The command line: parse, call, print. Every verb is a few lines; what they do lives in `tasks`, `lens` and `recipe`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from regard.errors import UserError

app = typer.Typer(add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

Settings = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="settings such as train.steps=500")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N; by default a GPU where there is one")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


@app.command()
def demo(out: Annotated[Path, typer.Option(help="folder of the run")] = Path("runs/demo"), device: Device = None) -> None:
    """One minute: train a translator on the built-in corpus, score it, look at its attention."""
    from regard.tasks.demo import run_demo

    run_demo(out, device, _say)


@app.command()
def recipes(as_json: Json = False) -> None:
    """What can be trained, how long it takes, which score to expect."""
    from regard.recipe import builtin_names, load_recipe
    from regard.tasks.listing import recipe_rows, recipe_table

    found = [load_recipe(name) for name in builtin_names()]
    print(json.dumps(recipe_rows(found), indent=2, ensure_ascii=False) if as_json else recipe_table(found))


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="a recipe's name or a .toml file")],
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="folder of the run; by default runs/RECIPE")] = None,
    device: Device = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check everything, estimate the cost, train nothing")] = False,
) -> None:
    """Train a recipe. The same command again continues where it stopped."""
    from regard.recipe import load_recipe
    from regard.tasks.run import choose_device
    from regard.tasks.training import dry_run_lines, train_run

    resolved = load_recipe(recipe, settings or [])
    folder = out or Path("runs") / resolved.recipe.name
    where = choose_device(device)
    if dry_run:
        print(resolved.to_toml())
        for line in dry_run_lines(resolved, where, _say):
            print(line)
        return
    print(resolved.to_toml(), file=sys.stderr)
    outcome = train_run(resolved, folder, where, _say)
    if outcome.interrupted:
        _say(f"saved step {outcome.progress.step:,} in {folder}; continue with: {_again()}")
        raise typer.Exit(outcome.interrupted)
    for line in outcome.scores.lines() if outcome.scores else []:
        print(line)
    print(f'run: {folder}    try: regard predict {folder} "..."    look: regard lens {folder} "..."')


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    settings: Settings = None,
    device: Device = None,
    output: Annotated[Path | None, typer.Option(help="also write the outputs, a line each")] = None,
    as_json: Json = False,
) -> None:
    """Score a run on its test set, or on another: data.test=FILE."""
    from regard.tasks import translate
    from regard.tasks.run import Run
    from regard.tasks.translator import Translator

    translator = Translator.open(run, device, settings or [])
    pairs = translate.read_split(Run.open(run).recipe_with(settings or []), "test") if _has_test(run, settings) else []
    scores, outputs = translate.evaluate(translator, pairs)
    if output is not None:
        _write_lines(output, outputs)
    print(
        json.dumps({"run": str(run), "sentences": len(pairs), **scores.as_dict()}, indent=2)
        if as_json
        else "\n".join(scores.lines())
    )


def _has_test(run: Path, settings: list[str] | None) -> bool:
    from regard.tasks.run import Run

    return bool(Run.open(run).recipe_with(settings or []).data.test)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    text: Annotated[list[str] | None, typer.Argument(help="texts; without any, lines from --input or standard input")] = None,
    input: Annotated[Path | None, typer.Option("--input", help="a file of lines")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="a file for the results")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="such as decode.beam=8")] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Do what the run was trained for, on texts, a file or standard input; results come as they are ready."""
    from regard.tasks.predict import predict_lines

    if text and input is not None:
        raise UserError("both texts and --input were given; give one of them.")
    with predict_lines(run, text, input, output, setting or [], device, as_json) as lines:
        for line in lines:
            print(line, flush=True)


@app.command()
def lens(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    text: Annotated[str, typer.Argument(help="the text to look into")],
    out: Annotated[Path | None, typer.Option(help="FILE.png, .svg, .html or .json")] = None,
    part: Annotated[str, typer.Option(help="cross, decoder or encoder")] = "cross",
    device: Device = None,
) -> None:
    """Draw what each word of a translation attended to."""
    from regard.lens import picture
    from regard.tasks.translator import Translator

    if part not in ("cross", "decoder", "encoder"):
        raise UserError(f"--part {part} is not known; give cross, decoder or encoder.")
    if not text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    if out is not None:
        picture.check_suffix(out)
    translation, alignment = Translator.open(run, device).attention(text, part)
    print(translation)
    print(picture.text(alignment))
    if out is not None:
        picture.save(alignment, out)
        print(f"drawn: {out}")


@app.command()
def explain(
    target: Annotated[str, typer.Argument(metavar="RECIPE|RUN")], settings: Settings = None, as_json: Json = False
) -> None:
    """The model as a tree: shapes, parameters, operations, and the file of each part."""
    from regard.tasks.listing import explain_rows, explain_tree

    print(json.dumps(explain_rows(target, settings or []), indent=2) if as_json else explain_tree(target, settings or []))


@app.command()
def doctor(as_json: Json = False) -> None:
    """Versions, devices, disk and permissions: what to send with a bug report."""
    from regard.tasks.doctor import examine, report

    findings = examine()
    print(json.dumps(findings, indent=2) if as_json else report(findings))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _again() -> str:
    return " ".join(["regard", *(f'"{a}"' if " " in a else a for a in sys.argv[1:])])


def _write_lines(path: Path, lines: list[str]) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None


def main(arguments: list[str] | None = None) -> None:
    """Run a command; mistakes end as one sentence and exit code 2."""
    try:
        code: Any = app(args=arguments, standalone_mode=False, prog_name="regard")
    except UserError as error:
        _say(f"regard: {error}")
        code = 2
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        code = 2
    except click.ClickException as error:
        _say(f"regard: {error.format_message()} See 'regard --help'.")
        code = 2
    except (KeyboardInterrupt, click.Abort):
        _say("regard: stopped.")
        code = 130
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
