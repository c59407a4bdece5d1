"""The command line: parse, call a function of `commands`, print.

A verb imports what it calls when it is called, so that help does not wait for torch.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Annotated, Any

import typer
import typer.main

from regard import __version__
from regard.cli import inspect, predict, serve, train
from regard.cli.shared import ReaderLeft, Verbs, say
from regard.core.errors import UserError
from regard.core.terminal import quoted

app = typer.Typer(
    cls=Verbs,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Regard: the whole Transformer family on one attention core. Train, decode, look inside.",
    epilog="Start with 'regard demo'. 'regard VERB --help' explains each.",
)
for group in (train, predict, inspect, serve):  # the order of help
    app.add_typer(group.verbs)


def _print_version(given: bool) -> None:
    if given:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def _any_verb(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")] = False,
) -> None:
    """Take the options before a verb."""


Mistyped: type[typer.BadParameter] = typer.BadParameter.__bases__[0]
"""The class that every error of typer's parser extends, in all versions of typer."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; a user's mistake is printed as one sentence and ends with exit code 2."""
    try:
        _open_closed_streams()
        code: Any = _command()(args=arguments or sys.argv[1:] or ["--help"], standalone_mode=False, prog_name="regard")
        sys.stdout.flush()
    except UserError as error:
        code = _refuse(str(error))
    except Mistyped as error:
        code = _refuse(_with_help(error))
    except (KeyboardInterrupt, typer.Abort):
        say("regard: stopped.")
        code = 130
    except (ReaderLeft, BrokenPipeError):
        for stream in (sys.stdout, sys.stderr):  # their buffers are flushed when Python exits, and must go somewhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        code = 0
    except OSError as error:  # such as a full disk or a deleted folder
        what = quoted(str(error.filename or "the output"), 300)
        code = _refuse(f"{what} cannot be read or written: {error.strerror}. Correct that and run the same command again.")
    except MemoryError:
        code = _refuse("this takes more memory than there is. Give less text, or a smaller model, file or batch.")
    except SystemExit as error:
        if isinstance(error.code, str):
            raise
        code = error.code
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # raised by libraries written in Rust; not an Exception
            raise
        code = _refuse(f"a library failed ({quoted(str(error), 200)}). Check the files that were given, and report it.")
    code = code if isinstance(code, int) else 0
    if distributed := sys.modules.get("regard.training.distributed"):  # which few commands import
        distributed.leave(code)
    sys.exit(code)


@cache
def _command() -> Any:
    """Return the parser of all verbs: typer takes longer to build it than many verbs take."""
    return typer.main.get_command(app)


def _open_closed_streams() -> None:
    """Open /dev/null for standard streams that are closed (as by 2>&-): the next opened file would take their numbers.

    A closed standard output is refused, since results would be lost. Commands that read standard input refuse a closed one.
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


def _with_help(error: typer.BadParameter) -> str:
    if getattr(error, "option_name", None) == "--set":
        return "a setting is typed by itself, without --set: for instance decode.beam=8."
    message = error.format_message()
    command = error.ctx.command_path if error.ctx else "regard"
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} See '{command} --help'."
