"""`regard predict`: texts, a file, a table or standard input in; what the run was trained for out, as it is ready."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path

from regard.core.atomic import partial_file
from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.runs.protocols import Draws, Forecasting
from regard.tasks.notices import LONGEST, check_length, report_unknown_words
from regard.tasks.registry import open_run

CHUNK = 64  # lines answered together: enough to sort by length, few enough to watch
BLOCK = 1 << 16  # bytes
MOST_BYTES = 4  # of a character

Lines = Iterable[Sequence[str]]  # a few at a time


def predict(
    run: str,
    texts: Sequence[str] | None,
    input: Path | None,
    output: Path | None,
    settings: Sequence[str],
    device: str | None,
    as_json: bool,
    emit: Emit,
    weights: str = "",
) -> None:
    """Tell what the run answers; with `output`, tell it to that file instead."""
    if os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        from regard.commands.predict_shard import predict_shard  # the process group

        predict_shard(run, texts, input, output, settings, device, as_json, weights)
        return
    with ExitStack() as opened:
        table = None
        if input is not None:
            from regard.commands.predict_table import is_table, predict_table  # readers of all tables, which a text does not need

            table = input if is_table(input) else None
        answers, number = open_run(run, device, settings, weights), 0
        if isinstance(answers, Draws):
            named = _sources(texts, input, opened) if texts or input is not None else []
            answers.draw_to([text for some in named for text in some], output, as_json, emit)
            return
        if isinstance(answers, Forecasting):
            answers.forecast_to([*(texts or ()), *([str(input)] if input is not None else [])], output, as_json, emit)
            return
        sources = _sources(texts, input, opened) if table is None else []
        if output is not None:
            emit = opened.enter_context(partial_file(output, "--output")).write
        opened.enter_context(report_unknown_words(answers))
        if table is not None:
            predict_table(table, output, answers, as_json, emit)
        for some in sources:
            answers.predict(some, None if texts else number, as_json, emit)
            number += len(some)


def _sources(texts: Sequence[str] | None, input: Path | None, opened: ExitStack) -> Lines:
    if texts:
        return [[check_length(text, f"text {number:,}") for number, text in enumerate(texts, 1)]]
    if input is None:
        return arriving(sys.stdin.buffer, "standard input")  # type: ignore[arg-type]
    return arriving(opened.enter_context(open_input(input)), f"--input {input}")


def open_input(input: Path) -> BufferedReader:
    """Open a file of texts; one that cannot be read is refused in one sentence."""
    try:
        return input.open("rb")
    except FileNotFoundError:
        raise UserError(f"--input {input} does not exist; give a file with one text on each line.") from None
    except IsADirectoryError:
        raise UserError(f"--input {input} is a folder; give a file with one text on each line.") from None
    except OSError as error:
        raise UserError(f"--input {input} cannot be read: {error.strerror}. Check who may read it.") from None


def arriving(file: BufferedReader, name: str) -> Lines:
    """Whole lines as soon as they are there: whoever types or pipes need not close the stream to see results."""
    rest, number = b"", 0
    while block := file.read1(BLOCK):
        *whole, rest = (rest + block).split(b"\n")
        for start in range(0, len(whole), CHUNK):
            chunk = whole[start : start + CHUNK]
            yield [_decoded(line, name, number + n) for n, line in enumerate(chunk, 1)]
            number += len(chunk)
        if len(rest) > LONGEST * MOST_BYTES:  # no line end comes, and what is held should not grow for ever
            raise UserError(f"{name}, line {number + 1:,} has more than the {LONGEST:,} characters of one text; split it.")
    if rest:
        yield [_decoded(rest, name, number + 1)]


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}, line {number:,}: byte {error.start + 1} (0x{line[error.start]:02X}) is not UTF-8; convert the text first, "
            "for instance with iconv -f LATIN1 -t UTF-8."
        ) from None
    return check_length(text, f"{name}, line {number:,}")
