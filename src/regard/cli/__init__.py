"""The command line: parse, call, print. Every verb is a few lines; what they do lives in `tasks`, `lens` and `recipe`.

A verb imports what it calls when it is called: help should not wait for torch.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from regard import __version__
from regard.cli import convert, info, inspect, predict, train
from regard.cli.shared import ReaderLeft, Verbs, say
from regard.core.errors import UserError
from regard.core.terminal import quoted

app = typer.Typer(
    cls=Verbs,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Regard: the whole Transformer family on one attention core. Train, decode, look inside.",
    epilog="Start with 'regard demo'. 'regard VERB --help' tells more about each.",
)
for group in (train, predict, convert, inspect, info):  # the order of help
    app.add_typer(group.verbs)


def _told(asked: bool) -> None:
    if asked:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def _any_verb(
    version: Annotated[bool, typer.Option("--version", callback=_told, is_eager=True, help="print the version")] = False,
) -> None:
    """Options that stand before any verb."""


Mistyped: type[typer.BadParameter] = typer.BadParameter.__bases__[0]
"""What typer raises for every wrong command line; this is the one way to say it that all its versions share."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; mistakes end as one sentence and exit code 2."""
    try:
        _open_closed_streams()
        code: Any = app(args=arguments or sys.argv[1:] or ["--help"], standalone_mode=False, prog_name="regard")
        sys.stdout.flush()
    except UserError as error:
        code = _refuse(str(error))
    except Mistyped as error:
        code = _refuse(_where_to_look(error))
    except (KeyboardInterrupt, typer.Abort):
        say("regard: stopped.")
        code = 130
    except (ReaderLeft, BrokenPipeError):
        for stream in (sys.stdout, sys.stderr):  # what they still hold is written when Python ends, and must go somewhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        code = 0
    except OSError as error:  # a disk that is full, a folder that went away
        what = quoted(str(error.filename or "the output"), 300)
        code = _refuse(f"{what} cannot be read or written: {error.strerror}. Mend that and run the same command again.")
    except MemoryError:
        code = _refuse("this takes more memory than there is. Give less text, or a smaller model, file or batch.")
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a library written in Rust; `except Exception` does not see it
            raise
        code = _refuse(f"a library gave up ({quoted(str(error), 200)}). Check the files that were given, and report it.")
    sys.exit(code if isinstance(code, int) else 0)


def _open_closed_streams() -> None:
    """Python has None for a stream that was closed, as 2>&- does; the next file that is opened would take its number.

    Nothing is said where nobody listens. Results are refused: somebody should have them. Whoever reads input refuses it there.
    """
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None and (opened := os.open(os.devnull, os.O_RDWR)) != number:
            os.dup2(opened, number)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
    if sys.stdout is None:
        raise UserError("standard output is closed, so results have nowhere to go; leave >&- out, or write >/dev/null.")


def _refuse(sentence: str) -> int:
    say(f"regard: {sentence}")
    return 2


def _where_to_look(error: typer.BadParameter) -> str:
    if getattr(error, "option_name", None) == "--set":
        return "a setting is typed by itself, without --set: for instance decode.beam=8."
    told = error.format_message()
    return f"{told}{'' if told.endswith(('.', '?')) else '.'} See '{error.ctx.command_path if error.ctx else 'regard'} --help'."
