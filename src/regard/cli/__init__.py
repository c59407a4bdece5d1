"""The command line: parse, call, print. Every verb is a few lines; what they do lives in `tasks`, `lens` and `recipe`.

A verb imports what it calls when it is called: help should not wait for torch.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from regard.cli import changing, looking, making, telling, using
from regard.cli.shared import say
from regard.errors import UserError
from regard.terminal import quoted

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Regard: the whole Transformer family on one attention core. Train, decode, look inside.",
    epilog="Start with 'regard demo'. 'regard VERB --help' tells more about each.",
)
for group in (making, using, changing, looking, telling):  # the order of help
    app.add_typer(group.verbs)

Mistyped: type[typer.BadParameter] = typer.BadParameter.__bases__[0]
"""What typer raises for every wrong command line; this is the one way to say it that all its versions share."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; mistakes end as one sentence and exit code 2."""
    try:
        code: Any = app(args=arguments or sys.argv[1:] or ["--help"], standalone_mode=False, prog_name="regard")
        sys.stdout.flush()
    except UserError as error:
        code = _refuse(str(error))
    except Mistyped as error:
        code = _refuse(_where_to_look(error))
    except (KeyboardInterrupt, typer.Abort):
        say("regard: stopped.")
        code = 130
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a disk that is full, a folder that went away
        what = error.filename or "the output"
        code = _refuse(f"{what} cannot be read or written: {error.strerror}. Mend that and run the same command again.")
    except MemoryError:
        code = _refuse("this takes more memory than there is. Give less text, or a smaller model, file or batch.")
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a library written in Rust; `except Exception` does not see it
            raise
        code = _refuse(f"a library gave up ({quoted(str(error), 200)}). Check the files that were given, and report it.")
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(sentence: str) -> int:
    say(f"regard: {sentence}")
    return 2


def _where_to_look(error: typer.BadParameter) -> str:
    if getattr(error, "option_name", None) == "--set":
        return "a setting is typed by itself, without --set: for instance decode.beam=8."
    told = error.format_message()
    return f"{told}{'' if told.endswith(('.', '?')) else '.'} See '{error.ctx.command_path if error.ctx else 'regard'} --help'."
