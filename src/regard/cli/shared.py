"""Shared by verbs: arguments with one meaning everywhere, texts mixed with settings, examples of help pages, and printing."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from regard.core.errors import UserError
from regard.core.terminal import printable

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="a name from 'regard recipes', or a .toml file")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="a run, a Hugging Face folder, or hf:NAME on its hub")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run")]
Settings = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="such as train.steps=500 or decode.beam=8")]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda or cuda:N; by default a GPU where there is one")]
Weights = Annotated[
    str,
    typer.Option("--weights", metavar="NAME", help="last, best, average or a checkpoint such as step-400", show_default=False),
]


def _load_plugins(given: list[Path] | None) -> list[Path] | None:
    """Load the files given as --plugin, before anything else is parsed."""
    for path in given or ():
        from regard.runs.plugins import load_plugin

        load_plugin(path)
    return given


Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        callback=_load_plugins,
        is_eager=True,
        help="Python with parts of your own, for regard.register",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Picture = Annotated[Path | None, typer.Option(metavar="FILE", help="a picture: .png, .svg, .html or .json")]


def checked(run: Path | str, settings: list[str] | None) -> list[str]:
    """Return the settings of a run, once all is refused that can be without torch."""
    from regard.runs.recipe import check_run

    check_run(run, settings or [])
    return settings or []


def examples(*lines: str) -> str:
    """Return the examples at the end of a help page; after \\b typer keeps line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class TextsAndSettings(TyperCommand):
    """A verb whose arguments are texts and settings such as decode.beam=8; after -- all are texts.

    `only_texts` is the callback of its argument, and `settings_of` returns the settings.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[BEHIND_DASHES] = len(args) - args.index("--") - 1 if "--" in args else 0
        return super().parse_args(ctx, args)


BEHIND_DASHES, SETTINGS = "regard.behind_dashes", "regard.settings"  # keys of a context's meta data


def only_texts(context: typer.Context, given: list[str] | None) -> list[str] | None:
    """Return the texts among the arguments, and keep the settings for `settings_of`."""
    given = given or []
    open_to_both = len(given) - min(len(given), context.meta[BEHIND_DASHES])
    settings = [text for text in given[:open_to_both] if _is_setting(text)]
    context.meta[SETTINGS] = settings
    return [text for text in given[:open_to_both] if text not in settings] + given[open_to_both:] or None


def settings_of(context: typer.Context) -> list[str]:
    """Return the settings among the texts."""
    return list(context.meta[SETTINGS])


def _is_setting(text: str) -> bool:
    """Return whether an argument is section.key=...; a section that is nearly one of a recipe's is refused."""
    key, equals, _ = text.partition("=")
    section, dot, name = key.partition(".")
    if not (equals and dot and name.isidentifier()):
        return False
    from regard.runs.recipe import SECTIONS

    if section not in SECTIONS and (close := get_close_matches(section, SECTIONS, n=1, cutoff=0.7)):
        raise UserError(
            f"{text!r} looks like a setting, but there is no section {section!r}; did you mean {close[0]}.{name}? A text goes "
            "after --, or into a file for --input."
        )
    return section in SECTIONS


def show(piece: str) -> None:
    """Print output: as it is into a pipe, with control characters escaped on a terminal."""
    print(printable(piece, keep="\n\t") if sys.stdout.isatty() else piece, end="", flush=True)


def show_line(line: str) -> None:
    """Print a line of results, with control characters escaped."""
    print(printable(line, keep="\n\t"))


def say(line: str) -> None:
    """Print a message to standard error."""
    print(printable(line, keep="\n\t"), file=sys.stderr, flush=True)


def say_nothing(line: str) -> None:
    """Print nothing: of several training processes only the first prints."""


MAY_BE_EMPTY = (
    "TEXT",
    "TEXT|KEY=VALUE",
    "KEY=VALUE",
    "NAME",
)  # metavars: texts, or refused elsewhere


class ReaderLeft(Exception):
    """The reader of our output has closed it, as `head` does. Typer would exit with 1 for a BrokenPipeError."""


class Verbs(TyperGroup):
    """All verbs; refuses empty names and ends quietly when the reader of the output is gone."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().make_context(*arguments, **options)
        except BrokenPipeError:  # of a help page
            raise ReaderLeft from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderLeft from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb, and refuse empty arguments: as a path, an empty text would mean the current folder."""
        name, verb, rest = super().resolve_command(ctx, args)
        if verb is not None and any(not word or word.endswith("=") for word in rest):
            alone = verb.context_class(verb, info_name=name, parent=ctx)
            given, _, _ = verb.make_parser(alone).parse_args(list(rest))
            for parameter in verb.params:
                what = parameter.metavar or str(parameter.name).upper()
                if given.get(str(parameter.name)) == "" and what not in MAY_BE_EMPTY:
                    called = parameter.opts[0] if parameter.param_type_name == "option" else what
                    raise UserError(f"{called} is an empty text; give a name or a path. See 'regard {name} --help'.")
        return name, verb, rest
