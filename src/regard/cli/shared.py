"""What verbs share: arguments that mean the same everywhere, the examples of a help page, and where lines go."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.terminal import printable

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="a name from 'regard recipes', or a .toml file")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="a run, a Hugging Face folder, or hf:NAME on its hub")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run")]
Settings = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="such as train.steps=500 or decode.beam=8")]
Choices = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="such as decode.beam=8")]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda or cuda:N; by default a GPU where there is one")]
Weights = Annotated[
    str,
    typer.Option("--weights", metavar="NAME", help="last, best, average or a checkpoint such as step-400", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def examples(*lines: str) -> str:
    """For the end of a help page; after \\b typer keeps line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def show(piece: str) -> None:
    """Print output as it is where it is piped; on a terminal, what that would obey is shown as an escape."""
    print(printable(piece, keep="\n\t") if sys.stdout.isatty() else piece, end="", flush=True)


def show_line(line: str) -> None:
    """Print a line with names and labels in it, which are escaped wherever they go."""
    print(printable(line, keep="\n\t"))


def say(line: str) -> None:
    """Print a line for people, beside the output."""
    print(printable(line, keep="\n\t"), file=sys.stderr, flush=True)


def say_nothing(line: str) -> None:
    """Of several processes that train together one speaks."""
